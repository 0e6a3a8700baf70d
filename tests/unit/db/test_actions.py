"""Actions as rows: where they stand, and what is forgotten when they end."""
from __future__ import annotations

import pytest
import sqlalchemy as sa

from nova_lite import conf as conf_module
from nova_lite.context import admin_context
from nova_lite.db import actions, models, secret_keys
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
    arguments = {"admin_password": "s3cret", "count": 1}
    ids = [db.write(actions.create, admin_context(), verb, [server], 60.0, "compute", "h", given)[0]
           for verb, given in (("rescue", arguments), ("stop", {"count": 2}))]
    db.write(actions.finish, ids, error, kept)
    with db.read() as connection:
        ended = [actions.get(connection, one) for one in ids]
    assert not any("s3cret" in str(action.arguments) for action in ended)
    assert {(action.state, action.message) for action in ended} == {("error", error[:255]) if error else ("done", None)}
    assert [action.arguments.get("error" if kept else "count") for action in ended] == ([kept["error"]] * 2 if kept else [1, 2])


def test_verb_and_step_are_columns(db):
    server = add_server(db).uuid
    [one] = db.write(actions.create, admin_context(), "live_migrate", [server], 60.0, "compute", "h", {"migration_id": 1})
    db.write(actions.hand_over, [one], 60.0, "compute", "h2", {"migration_id": 1}, "undo")
    db.write(actions.hand_over, [one], 60.0, "compute", "h2", {"migration_id": 2})
    db.write(actions.hand_over, [one], 60.0, "compute", "h2")
    with db.read() as connection:
        [row] = connection.execute(sa.select(models.instance_actions.c.verb, models.instance_actions.c.step)).all()
        found = actions.get(connection, one)
    assert tuple(row) == ("live_migrate", "undo") == (found.verb, found.step)
    assert found.arguments["migration_id"] == 2


def test_what_an_older_release_has_written_since_is_read(db):
    """It writes the arguments only, so these are never older than the columns."""
    server = add_server(db).uuid
    [one] = db.write(actions.create, admin_context(), "live_migrate", [server], 60.0, "compute", "h", {"migration_id": 1})
    db.write(actions.hand_over, [one], 60.0, "compute", "h2", {"migration_id": 1}, "prepare")
    with db.read() as connection:
        written = actions.get(connection, one).arguments
    db.write(actions.hand_over, [one], 60.0, "compute", "h2", {**written, "step": "copy"})
    with db.read() as connection:
        assert actions.get(connection, one).step == "copy"
        [shown] = actions.list_open(connection)
    assert (shown["verb"], shown["step"]) == ("live_migrate", "copy")
