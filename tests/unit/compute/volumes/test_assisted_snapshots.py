"""Snapshots that Cinder asks the hypervisor for, by REST, with a small Cinder on HTTP."""
from __future__ import annotations

import json
import uuid
from urllib.parse import quote

import pytest

from nova_lite import exception
from nova_lite.objects import states
from tests.support.fake_cinder import FakeCinder
from tests.support.fake_openstack import FakeOpenStack
from tests.unit.api.compute.conftest import Client
from tests.unit.compute.volumes.volume_cloud import DIED

PATH = "/os-assisted-volume-snapshots"
BROKEN = exception.DriverRefusal(what="Snapshot", reason="no space left")


@pytest.fixture
def cinder():
    made = FakeCinder()
    made.tokens = {"u:p": "p"}
    return made


@pytest.fixture
def cloud(make_volume_cloud, cinder):
    neighbour = FakeOpenStack("block-storage", cinder, versions={"v3.71": "/v3/"})
    credentials = "[service_user]\n" + "\n".join(f"{k} = {v}" for k, v in neighbour.options.items())
    yield make_volume_cloud("h1", config=credentials, volume__driver="cinder", service_user__retries=0)
    neighbour.close()


@pytest.fixture
def service(cloud):
    """Cinder's own user."""
    return Client(cloud.app, "cinder", "service", ("service",), "2.1")


@pytest.fixture
def attached(cloud, cinder):
    """A server with a volume, and a snapshot of it that Cinder is making."""
    server, volume, snapshot = cloud.running(), cinder.add_volume("p"), str(uuid.uuid4())
    cloud.member.post(f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    cloud.wait_for(lambda: cinder.volumes[volume]["status"] == "in-use" and cloud.device(server, volume).attached, 20)
    cloud.actions_end(server, 20)
    cinder.snapshots[snapshot] = {"id": snapshot, "volume_id": volume, "size": 1, "status": "new"}
    return server, volume, snapshot


def body(volume, snapshot, **more):
    info = {"snapshot_id": snapshot, "type": "qcow2", "new_file": "volume.one", **more}
    return {"snapshot": {"volume_id": volume, "create_info": info}}


def deletion(volume, snapshot):
    info = {"volume_id": volume, "file_to_merge": None, "merge_target_file": None, "type": "qcow2"}
    return f"{PATH}/{snapshot}?delete_info={quote(json.dumps(info))}"


def test_made_and_merged(cloud, cinder, service, attached):
    server, volume, snapshot = attached
    assert service.post(PATH, body(volume, snapshot, id=snapshot)) == {"snapshot": {"id": snapshot, "volumeId": volume}}
    cloud.actions_end(server, 20)
    assert cinder.snapshots[snapshot]["status"] == "creating"
    service.delete(deletion(volume, snapshot))
    cloud.actions_end(server, 20)
    assert cinder.snapshots[snapshot]["status"] == "deleting"
    assert [c for c in cloud.drivers["h1"].calls if "snapshot" in c] == ["snapshot_volume", "merge_volume_snapshot"]


def test_what_fails_is_told(cloud, cinder, service, attached):
    server, volume, snapshot = attached
    for method, ask, status in (
            ("snapshot_volume", lambda: service.post(PATH, body(volume, snapshot)), "error"),
            ("merge_volume_snapshot", lambda: service.delete(deletion(volume, snapshot)), "error_deleting")):
        cloud.drivers["h1"].fail(method, BROKEN)
        ask()
        cloud.actions_end(server, 20)
        assert cinder.snapshots[snapshot]["status"] == status
    assert cloud.get(server).vm_state == states.ACTIVE


def test_a_host_that_dies_on_the_way_goes_on_later(cloud, cinder, service, attached):
    server, volume, snapshot = attached
    cloud.drivers["h1"].fail("snapshot_volume", DIED, "after")
    service.post(PATH, body(volume, snapshot))
    cloud.wait_for(lambda: "snapshot_volume" in cloud.drivers["h1"].calls and cloud.hosts["h1"].leases.in_flight() == [], 20)
    cloud.take_over()
    cloud.actions_end(server, 20)
    assert cinder.snapshots[snapshot]["status"] == "creating"


def test_what_is_refused(cloud, cinder, service, attached):
    server, volume, snapshot = attached
    cloud.member.fault("POST", PATH, 403, body(volume, snapshot))
    assert "No volume" in service.fault("POST", PATH, 400, body(cinder.add_volume("p"), snapshot))
    service.fault("POST", PATH, 400, body(str(uuid.uuid4()), snapshot))
    service.fault("POST", PATH, 400, body(volume, snapshot, type="raw"))
    for query in ("", "?delete_info=no", "?delete_info=[]", "?delete_info={}", "?delete_info=" + "[" * 3000,
                  "?delete_info=" + "9" * 5000, '?delete_info={"volume_id":"%5Cud800"}'):
        service.fault("DELETE", f"{PATH}/{snapshot}{query}", 400)
    cloud.set(server, task_state=states.REBOOTING)
    assert "task_state rebooting" in service.fault("POST", PATH, 400, body(volume, snapshot))
