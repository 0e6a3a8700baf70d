"""/os-volumes_boot: /servers by another name, until 2.102."""
import pytest

from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


def test_it_is_servers(servers, member):
    server = member.post("/os-volumes_boot", servers.body(), 202)["server"]["id"]
    assert member.get(f"/os-volumes_boot/{server}") == member.get(f"/servers/{server}")
    assert member.get("/os-volumes_boot") == member.get("/servers")
    assert member.get("/os-volumes_boot/detail") == member.get("/servers/detail")
    assert member.put(f"/os-volumes_boot/{server}", {"server": {"name": "other"}})["server"]["name"] == "other"
    member.delete(f"/os-volumes_boot/{server}")
    assert servers.row(server)["task_state"] == "deleting"


def test_until_2_102(servers, member):
    member.at("2.102").get("/os-volumes_boot")
    member.at("2.103").get("/os-volumes_boot", 404)
