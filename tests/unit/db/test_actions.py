"""Actions as rows: what is forgotten when they end."""
from __future__ import annotations

import pytest

from nova_lite import conf as conf_module
from nova_lite.context import admin_context
from nova_lite.db import actions, secret_keys
from nova_lite.db.core import Database
from tests.support.servers import add_server
from tests.unit.db.databases import make_tables


@pytest.fixture
def db(tmp_path):
    conf = conf_module.load([], config_files=[], state_path=str(tmp_path), database__connection=f"sqlite:///{tmp_path}/db")
    make_tables(conf.database.connection)
    secret_keys.ensure(conf)
    database = Database(conf)
    yield database
    database.dispose()


@pytest.mark.parametrize("error", ["it failed" * 40, None])
@pytest.mark.parametrize("kept", [None, {"admin_password": "s3cret", "error": ["Invalid", "no"]}])
def test_whoever_ends_an_action_ends_its_secrets(db, error, kept):
    server = add_server(db).uuid
    arguments = {"admin_password": "s3cret", "step": 1}
    ids = [db.write(actions.create, admin_context(), verb, [server], 60.0, "compute", "h", given)[0]
           for verb, given in (("rescue", arguments), ("stop", {"step": 2}))]
    db.write(actions.finish, ids, error, kept)
    with db.read() as connection:
        ended = [actions.get(connection, one) for one in ids]
    assert not any("s3cret" in str(action.arguments) for action in ended)
    assert {(action.state, action.message) for action in ended} == {("error", error[:255]) if error else ("done", None)}
    assert [action.arguments.get("error" if kept else "step") for action in ended] == ([kept["error"]] * 2 if kept else [1, 2])
