"""/os-migrations and /servers/{server_id}/migrations while no server can be moved."""
import json

import pytest

from nova_lite.api.compute.schemas import migrations as schema
from nova_lite.api.openstack.routes import at_version
from nova_lite.api.openstack.validation import Validator
from tests.unit.api.compute.server_support import Servers

UNKNOWN = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.mark.parametrize("version", ["2.1", "2.23", "2.59", "2.66", "2.80", "2.96"])
def test_empty(admin, version):
    path = "/os-migrations?host=h&status=done&migration_type=resize&instance_uuid=x"
    assert admin.at(version).get(path) == {"migrations": []}


# one as Nova's samples have it, at the version at which its keys change: the schemas must take them when there are some
MOVE = {"created_at": "2016-01-29T13:42:02.000000", "dest_compute": "compute2", "dest_host": "1.2.3.4", "dest_node": "node2",
        "id": 1234, "instance_uuid": UNKNOWN, "new_instance_type_id": 2, "old_instance_type_id": 1,
        "source_compute": "compute1", "source_node": "node1", "status": "done", "updated_at": None}
NEWER = (("2.1", {}), ("2.23", {"migration_type": "resize"}), ("2.59", {"uuid": UNKNOWN}),
         ("2.80", {"user_id": "u", "project_id": "p"}))


def test_the_schema_of_a_move():
    move = dict(MOVE)
    for place, (version, more) in enumerate(NEWER):
        move |= more
        Validator(at_version(schema.LIST, version)).check(json.loads(json.dumps({"migrations": [move]})))
        if place:
            assert Validator(at_version(schema.LIST, NEWER[place - 1][0])).error({"migrations": [move]})


def test_queries(admin):
    for query in ("limit=x", "changes-since=x", "changes-since=0001-01-01T00:00:00%2B14:00", "unknown=1"):
        admin.at("2.58").get(f"/os-migrations?{query}")
        admin.at("2.59").get(f"/os-migrations?{query}", 400)
    admin.at("2.65").get("/os-migrations?changes-before=2020-01-01T00:00:00Z", 400)
    admin.at("2.66").get("/os-migrations?changes-before=2020-01-01T00:00:00Z&changes-since=2019-01-01T00:00:00Z")
    assert "changes-since" in admin.at("2.66").fault(
        "GET", "/os-migrations?changes-before=2019-01-01T00:00:00Z&changes-since=2020-01-01T00:00:00Z", 400)
    assert admin.at("2.59").fault("GET", f"/os-migrations?marker={UNKNOWN}", 400) == f"marker [{UNKNOWN}] not found"
    admin.at("2.79").get("/os-migrations?user_id=u", 400)
    admin.at("2.80").get("/os-migrations?user_id=u&limit=5")


def test_whose_moves(cloud, member, admin):
    member.at("2.80").get("/os-migrations?project_id=project1", 403)
    manager = cloud.client(roles=("manager", "member", "reader"))
    assert manager.at("2.80").get("/os-migrations?project_id=project1") == {"migrations": []}
    manager.at("2.80").get("/os-migrations", 403)
    manager.at("2.80").get("/os-migrations?project_id=project2", 403)
    admin.at("2.80").get("/os-migrations?project_id=project2")


def test_moves_of_a_server(servers, cloud, member, admin):
    server = servers.active(member)
    path = f"/servers/{server}/migrations"
    assert admin.at("2.23").get(path) == {"migrations": []}
    assert cloud.client(roles=("manager",)).at("2.23").get(path) == {"migrations": []}
    member.at("2.23").get(path, 403)
    admin.at("2.22").get(path, 404)
    admin.at("2.23").get(f"/servers/{UNKNOWN}/migrations", 404)
    assert admin.at("2.23").fault("GET", f"{path}/1", 404) == \
        f"In-progress live migration 1 is not found for server {server}."


@pytest.mark.parametrize("version", ["2.24", "2.65", "2.96"])
def test_nothing_to_end(servers, admin, version):
    server, admin = servers.active(admin), admin.at(version)
    path, body = f"/servers/{server}/migrations/1", {"force_complete": None}
    assert "'abort live migration'" in admin.fault("DELETE", path, 409)
    assert "'force_complete'" in admin.fault("POST", f"{path}/action", 409, body)
    servers.set(server, task_state="migrating")
    assert "Migration 1 for" in admin.fault("DELETE", path, 404)
    assert "Migration 1 for" in admin.fault("POST", f"{path}/action", 400, body)     # as Nova has it
    admin.post(f"{path}/action", {"force_complete": {}}, 400)
    admin.at("2.23").delete(path, 404)
    admin.at("2.21").post(f"{path}/action", body, 404)
