"""Shares of files by REST, from the first check to access, guest and back, with a small Manila on HTTP."""
from __future__ import annotations

import os
import uuid

import pytest

from nova_lite.objects import states
from nova_lite.share import manila
from tests.support.fake_manila import FakeManila
from tests.support.fake_openstack import FakeOpenStack
from tests.unit.compute.volumes.volume_cloud import DIED, VolumeCloud

ADDRESS = "192.0.2.9"


@pytest.fixture
def shares():
    return FakeManila()


@pytest.fixture
def cloud(shares, tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "NOVA_LITE_CONCURRENCY", "threading")
    monkeypatch.setattr(manila, "POLL", 0.01)
    neighbour = FakeOpenStack("shared-file-system", shares, versions={"v2": "/v2/"})
    credentials = "[service_user]\n" + "\n".join(f"{k} = {v}" for k, v in neighbour.options.items())
    made = VolumeCloud(tmp_path, config=credentials, share__driver="manila", service_user__retries=0,
                       my_ip=ADDRESS)
    made.report("h1")
    made.member, made.admin = made.member.at("2.97"), made.admin.at("2.97")
    yield made
    made.drivers["h1"].heal()
    made.close()
    neighbour.close()


@pytest.fixture
def server(cloud):
    """A stopped one."""
    made = cloud.running()
    act(cloud, made, "os-stop")
    return made


def act(cloud, server, name):
    cloud.member.post(f"/servers/{server}/action", {name: None}, 202)
    cloud.actions_end(server, 20)


def attach(cloud, server, share, status=201, wait=True, **more):
    answer = cloud.member.post(f"/servers/{server}/shares", {"share": {"share_id": share, **more}}, status)
    if wait:
        cloud.actions_end(server, 20)
    return answer


def statuses(cloud, server):
    return [s["status"] for s in cloud.member.get(f"/servers/{server}/shares")["shares"]]


def test_the_life_of_a_share(cloud, shares, server):
    share = shares.add(paths=["10.0.0.5:/one", "10.0.0.5:/two"])
    assert attach(cloud, server, share, tag="data") == {"share": {"share_id": share, "status": "attaching", "tag": "data"}}
    shown = {"share_id": share, "status": "inactive", "tag": "data"}
    path = f"/servers/{server}/shares"
    assert cloud.member.get(path) == {"shares": [shown]}
    assert cloud.member.get(f"{path}/{share}") == {"share": shown}
    full = cloud.admin.get(f"{path}/{share}")["share"]
    assert full == {**shown, "export_location": "10.0.0.5:/two", "uuid": full["uuid"]}
    assert shares.hosts(share) == [ADDRESS]
    act(cloud, server, "os-start")
    assert statuses(cloud, server) == ["active"]
    cloud.member.fault("DELETE", f"{path}/{share}", 409)
    act(cloud, server, "os-stop")
    assert statuses(cloud, server) == ["inactive"]
    cloud.member.delete(f"{path}/{share}", 200)
    cloud.actions_end(server, 20)
    assert cloud.member.get(path) == {"shares": []}
    assert shares.hosts(share) == []
    assert [c for c in cloud.drivers["h1"].calls if "share" in c] == ["mount_share", "unmount_share", "unmount_share"]
    assert cloud.last_action(server)["action"] == "detach_share"


def test_the_access_stays_as_long_as_a_server_of_the_host_has_the_share(cloud, shares, server):
    share, other = shares.add(), cloud.running()
    act(cloud, other, "os-stop")
    for one in (server, other):
        attach(cloud, one, share)
    assert shares.hosts(share) == [ADDRESS]
    cloud.member.delete(f"/servers/{server}/shares/{share}", 200)
    cloud.actions_end(server, 20)
    assert shares.hosts(share) == [ADDRESS]
    cloud.delete(other)
    assert shares.hosts(share) == []


@pytest.mark.parametrize(("values", "words"), [({"status": "creating"}, "is in 'creating' instead of"),
                                               ({"share_proto": "SMB"}, "protocol SMB"), ({"paths": []}, "no export location")])
def test_a_share_that_cannot_be_used(cloud, shares, server, values, words):
    fault = attach(cloud, server, shares.add(**values), 409, wait=False)
    assert words in fault["conflictingRequest"]["message"]
    assert cloud.member.get(f"/servers/{server}/shares") == {"shares": []}


def test_what_is_refused(cloud, shares, server):
    share, path = shares.add(), f"/servers/{server}/shares"
    attach(cloud, server, share, tag="data")
    for wanted in ({"share_id": share}, {"share_id": shares.add(), "tag": "data"}):
        assert "already associated" in cloud.member.fault("POST", path, 409, {"share": wanted})
    cloud.member.fault("POST", path, 404, {"share": {"share_id": str(uuid.uuid4())}})
    cloud.member.fault("GET", f"{path}/{uuid.uuid4()}", 404)
    cloud.member.fault("DELETE", f"{path}/{uuid.uuid4()}", 404)
    for wrong in ({"share_id": "x"}, {"share_id": share, "tag": "a b"}, {"tag": "x"}, {"share_id": share, "colour": "red"}):
        cloud.member.fault("POST", path, 400, {"share": wrong})
    cloud.member.fault("GET", f"{path}?limit=1", 400)
    assert cloud.member.at("2.96").call("GET", path).status_code == 404
    cloud.other.at("2.97").fault("GET", path, 404)
    fault = cloud.member.fault("POST", f"/servers/{server}/action", 409, {"rebuild": {"imageRef": cloud.image}})
    assert "shares" in fault
    act(cloud, server, "os-start")
    assert "vm_state active" in cloud.member.fault("POST", path, 409, {"share": {"share_id": shares.add()}})
    assert "shares" in cloud.member.fault("POST", f"/servers/{server}/action", 409, {"suspend": None})


def test_a_host_that_cannot_give_files_to_guests(cloud, shares, server):
    cloud.drivers["h1"]._real.inventory = lambda real=cloud.drivers["h1"]._real.inventory: _without_traits(real())
    cloud.report("h1")
    fault = attach(cloud, server, shares.add(), 403, wait=False)
    assert "not supported here" in fault["forbidden"]["message"]


def _without_traits(inventory):
    inventory.traits = []
    return inventory


def test_an_access_that_is_refused_leaves_an_error_that_can_be_detached(cloud, shares, server):
    share = shares.add()
    shares.new_state = ("new", "error")
    attach(cloud, server, share)
    assert statuses(cloud, server) == ["error"]
    assert "could not be opened to the host of the server" in cloud.last_action(server)["message"]
    assert cloud.get(server).vm_state == states.STOPPED
    act(cloud, server, "os-start")      # without it
    assert statuses(cloud, server) == ["error"]
    act(cloud, server, "os-stop")
    cloud.member.delete(f"/servers/{server}/shares/{share}", 200)
    cloud.actions_end(server, 20)
    assert (statuses(cloud, server), shares.hosts(share)) == ([], [])


def test_a_host_that_dies_on_the_way_goes_on_later(cloud, shares, server):
    share = shares.add()
    attach(cloud, server, share)
    cloud.drivers["h1"].fail("unmount_share", DIED, "after")
    cloud.member.delete(f"/servers/{server}/shares/{share}", 200)
    cloud.wait_for(lambda: "unmount_share" in cloud.drivers["h1"].calls and cloud.hosts["h1"].leases.in_flight() == [], 20)
    assert statuses(cloud, server) == ["detaching"]
    cloud.take_over()
    cloud.actions_end(server, 20)
    assert (statuses(cloud, server), shares.hosts(share)) == ([], [])
