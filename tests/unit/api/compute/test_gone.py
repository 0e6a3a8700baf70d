"""The routes that Nova has removed: 410 at every microversion, for whoever asks."""
import pytest

from nova_lite.api.compute import gone
from nova_lite.api.openstack.registry import Registry

ROWS = [row for row in gone.ROUTES if row.status == 410]
GONE = "This resource is no longer available. No forwarding address is given."      # what Nova and WebOb say, clients match it
PATHS = {(row.method, row.path) for row in ROWS if not row.path.startswith("/servers/{server_id}/action")}


def test_all_of_them_are_there():
    assert len(PATHS) == 48
    assert len(Registry([gone]).entries) == len(gone.ROUTES) == 46 + 7 + 1


@pytest.mark.parametrize("version", ["2.1", "2.35", "2.36", "2.96", "2.102"])
def test_gone_at_every_microversion(member, version):
    for row in ROWS:
        body = {row.action: None} if row.action else {"anything": 1} if row.method in ("POST", "PUT") else None
        message = member.at(version).fault(row.method, row.path.replace("{", "").replace("}", ""), 410, body)
        assert message == GONE


def test_the_fault_is_a_compute_fault(member):
    response = member.call("GET", "/os-cells")
    assert (response.status, list(response.json)) == ("410 Gone", ["computeFault"])
    assert response.headers["OpenStack-API-Version"] == "compute 2.1"
    assert response.json["computeFault"]["message"] == GONE


def test_no_body_is_needed(member):
    assert member.call("POST", "/os-cells").status_code == 410


def test_neighbours_in_the_same_path_still_answer(member):
    assert member.get("/os-networks") == {"networks": []}
    assert member.fault("GET", "/os-networks/x", 404) == "Network x could not be found."
    assert member.call("GET", "/os-fixed-ips").status_code == 404


def test_rdp_console(member):
    body = {"os-getRDPConsole": {"type": "rdp-html5"}}
    assert member.fault("POST", "/servers/x/action", 400, body) == "Unavailable console type rdp-html5."
    member.at("2.5").post("/servers/x/action", body, 400)
    member.at("2.6").post("/servers/x/action", body, 404)
