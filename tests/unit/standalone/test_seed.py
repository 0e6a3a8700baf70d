"""What a new cloud starts with is made once for each database and directory."""
from __future__ import annotations

import pytest

from nova_lite import conf as conf_module
from nova_lite.context import RequestContext
from nova_lite.db import flavors, networks
from nova_lite.db.core import Database
from nova_lite.image import base as image_base
from nova_lite.standalone import seed
from tests.unit.db.databases import make_tables

ADMIN = RequestContext(roles=["admin"], is_admin=True, overwrite=False)


@pytest.fixture
def start(tmp_path):
    """Starts a cloud on a database of this name; answers its (flavors, networks, images)."""
    def run(name, change=None):
        url = make_tables(f"sqlite:///{tmp_path}/{name}")
        conf = conf_module.load([], config_files=[], state_path=str(tmp_path / "state"), database__connection=url,
                                compute__driver="fake")
        db = Database(conf)
        if name != "first":         # the tests' databases are copies of one, and so of one cloud
            db.write(lambda c: c.exec_driver_sql("UPDATE cloud SET uuid = ?", (name,)))
        seed.seed(conf, db)
        if change is not None:
            db.write(change)
        with db.read() as c:
            found = {f.name for f in flavors.list_all(c)}, {n["name"] for n in networks.list_networks(c)}
        db.dispose()
        return *found, [image.name for image in image_base.load(conf).list(ADMIN)]
    return run


ALL = ({name for _, name, *_ in seed.FLAVORS}, {seed.NETWORK}, [seed.IMAGE])


def _without_tiny(connection):
    flavors.delete(connection, "1")


def test_a_new_database_with_an_old_directory_gets_its_flavors_and_network(start):
    assert start("first") == ALL
    assert start("second") == ALL


def test_what_was_deleted_stays_deleted(start):
    without = start("first", _without_tiny)
    assert "m1.tiny" not in without[0]
    assert start("first") == without


@pytest.mark.parametrize("taken", [{"flavorid": "1", "name": "mine"}, {"flavorid": "mine", "name": "m1.tiny"}])
def test_a_flavor_that_is_there_keeps_its_id_and_its_name(start, taken):
    start("first")

    def made(connection):
        for _, name, *_ in seed.FLAVORS:
            connection.exec_driver_sql("DELETE FROM flavors WHERE name = ?", (name,))
        flavors.create(connection, {"memory_mb": 1, "vcpus": 1, "root_gb": 1, **taken})
    with_it = start("second", made)
    assert start("third", made)[0] == with_it[0] == {taken["name"]}
    assert start("second")[0] == (ALL[0] - {"m1.tiny"}) | {taken["name"]}


@pytest.mark.parametrize(("database", "kept"), [("first", True), ("second", False)])
def test_the_mark_of_an_older_version_names_no_cloud(start, tmp_path, database, kept):
    without = start("first", _without_tiny)
    mark = tmp_path / "state" / "seeded"
    mark.write_text("")
    assert start(database) == (without if kept else ALL)
    assert mark.read_text().strip()
    assert start(database) == (without if kept else ALL)
