"""/servers/{server_id}/diagnostics and /servers/{server_id}/topology; the answers of hosts are in tests/unit/compute."""
import oslo_messaging
import pytest

from nova_lite import exception
from nova_lite.objects.diagnostics import DISK, NIC, Diagnostics
from tests.unit.api.compute.conftest import assert_like_sample
from tests.unit.api.compute.server_support import Servers

UNKNOWN = "11111111-2222-3333-4444-555555555555"
DISK_COUNTS = {name: number for number, name in enumerate(DISK)}
NIC_COUNTS = {name: number for number, name in enumerate(NIC)}
FOUND = Diagnostics(
    "running", "libvirt", "kvm", "linux", 46664, True, 512, 256, [{"id": 0, "time": 17, "utilisation": None}],
    [{"name": "vda", **DISK_COUNTS, "errors_count": None}],
    [{"name": "vnet1", "mac_address": "fa:16:3e:00:00:01", **NIC_COUNTS}])


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.fixture
def host(cloud, monkeypatch):
    """What the host answers: set ``host["answer"]``, see ``host["asked"]``."""
    state = {"answer": FOUND.to_primitive(), "asked": []}

    def answer(_context, name, uuid):
        state["asked"].append((name, uuid))
        if isinstance(state["answer"], Exception):
            raise state["answer"]
        return state["answer"]
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "get_diagnostics", answer)
    return state


def test_both_forms(servers, admin, host):
    server = servers.active(admin)
    plain = admin.get(f"/servers/{server}/diagnostics")
    assert_like_sample(plain, "os-server-diagnostics/server-diagnostics-get-resp", "2.1")
    assert plain == {"cpu0_time": 17, "memory": 524288, "vda_errors": -1, "vda_read": 0, "vda_read_req": 1, "vda_write": 2,
                     "vda_write_req": 3, "vnet1_rx": 0, "vnet1_rx_drop": 2, "vnet1_rx_errors": 1, "vnet1_rx_packets": 3,
                     "vnet1_tx": 5, "vnet1_tx_drop": 7, "vnet1_tx_errors": 6, "vnet1_tx_packets": 8}
    assert admin.at("2.47").get(f"/servers/{server}/diagnostics") == plain
    standard = admin.at("2.48").get(f"/servers/{server}/diagnostics")
    assert_like_sample(standard, "os-server-diagnostics/server-diagnostics-get-resp", "2.48")
    assert standard["memory_details"] == {"maximum": 512, "used": 256}
    assert standard["disk_details"] == [{**DISK_COUNTS, "errors_count": None}]
    assert standard["nic_details"] == [{"mac_address": "fa:16:3e:00:00:01", **NIC_COUNTS}]
    assert (standard["num_cpus"], standard["num_disks"], standard["num_nics"]) == (1, 1, 1)
    assert host["asked"] == [("host1", server)] * 3


def test_no_diagnostics(servers, cloud, admin, member, host):
    server = servers.active(member)
    path = f"/servers/{server}/diagnostics"
    member.get(path, 403)
    admin.get(f"/servers/{UNKNOWN}/diagnostics", 404)
    assert "not ready" in admin.fault("GET", f"/servers/{servers.create(member)}/diagnostics", 409)
    host["answer"] = exception.InstanceInvalidState(action="get_diagnostics", instance_id=server, attr="power state", state="x")
    assert admin.fault("GET", path, 409) == f"Cannot 'get_diagnostics' instance {server} while it is in power state x"
    host["answer"] = oslo_messaging.MessagingTimeout("no reply")
    assert "its compute host does not answer" in admin.fault("GET", path, 503)
    host["answer"] = exception.NotImplementedByDriver(what="diagnostics")
    admin.get(path, 501)


def test_what_is_not_known_is_left_out_until_2_47(servers, admin, host):
    server = servers.active(admin)
    host["answer"] = Diagnostics("running", "libvirt", nics=[{"name": "tap1"}], memory={"rss": 5}).to_primitive()
    assert admin.get(f"/servers/{server}/diagnostics") == {"memory-rss": 5}
    standard = admin.at("2.48").get(f"/servers/{server}/diagnostics")
    assert standard["memory_details"] == {"maximum": None, "used": None}
    assert set(standard["nic_details"][0].values()) == {None}


def test_topology(servers, cloud, admin, member):
    server = servers.active(member)
    for client in (member, admin):
        assert client.at("2.78").get(f"/servers/{server}/topology") == {"nodes": [], "pagesize_kb": None}
    member.at("2.77").get(f"/servers/{server}/topology", 404)
    cloud.client("x", "project2").at("2.78").get(f"/servers/{server}/topology", 404)
    cloud.client(roles=()).at("2.78").get(f"/servers/{server}/topology", 403)
