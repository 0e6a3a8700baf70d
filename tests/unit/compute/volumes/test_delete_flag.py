"""Whether a volume is deleted with its server may be changed at any time: no operation on the way writes the old value back."""
import pytest

from nova_lite.objects import states
from tests.unit.compute.volumes.volume_cloud import existing

ON_THE_WAY = {
    "live_migration": {"os-migrateLive": {"host": None, "block_migration": "auto"}},
    "finish_move": {"migrate": None},
    "spawn": {"rebuild": {"imageRef": None}}}


@pytest.fixture
def cloud(make_volume_cloud):
    return make_volume_cloud("h1", "h2")


def keep(cloud, server, volume, status=202):
    path, body = f"/servers/{server}/os-volume_attachments/{volume}", {"volumeId": volume, "delete_on_termination": False}
    if status != 202:
        return cloud.member.fault("PUT", path, status, {"volumeAttachment": body})
    assert cloud.device(server, volume).delete_on_termination
    cloud.member.put(path, {"volumeAttachment": body}, 202)
    return None


@pytest.mark.parametrize("operation", ON_THE_WAY)
def test_while_the_server_is_worked_on(cloud, monkeypatch, operation):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume, delete_on_termination=True)
    cloud.actions_end(server)
    before = cloud.device(server, volume)
    held, go_on = cloud.hold(monkeypatch, operation)
    body = ON_THE_WAY[operation]
    cloud.admin.post(f"/servers/{server}/action", {"rebuild": {"imageRef": cloud.image}} if "rebuild" in body else body, 202)
    assert held.wait(30)
    keep(cloud, server, volume)
    go_on.set()
    cloud.actions_end(server, 60)
    after = cloud.device(server, volume)
    assert (after.delete_on_termination, after.attached) == (False, True)
    # the host's part of the record is as the host has it
    assert (after.attachment_id != before.attachment_id) == (operation != "spawn")
    assert [a["id"] for a in cloud.attachments() if a["status"] == "attached"] == [after.attachment_id]
    assert after.connection_info is not None


def test_on_the_way_back(cloud, monkeypatch):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume, delete_on_termination=True)
    cloud.actions_end(server)
    cloud.admin.post(f"/servers/{server}/action", {"migrate": None}, 202)
    cloud.wait(server, states.RESIZED, 30)
    held, go_on = cloud.hold(monkeypatch, "bring_back")
    cloud.member.post(f"/servers/{server}/action", {"revertResize": None}, 202)
    assert held.wait(30)
    keep(cloud, server, volume)
    go_on.set()
    cloud.actions_end(server, 60)
    assert not cloud.device(server, volume).delete_on_termination
    assert [a["id"] for a in cloud.attachments()] == [cloud.device(server, volume).attachment_id]


def test_in_a_build(cloud, monkeypatch):
    volume = cloud.volume(bootable=True)
    held, go_on = cloud.hold(monkeypatch, "spawn")
    server = cloud.boot(existing(volume, 0, delete_on_termination=True))
    assert held.wait(30)
    keep(cloud, server, volume)
    go_on.set()
    cloud.wait(server, states.ACTIVE, 10)
    device = cloud.device(server, volume)
    assert (device.delete_on_termination, device.attached) == (False, True)


def test_until_its_request_is_done_a_server_has_no_flags_to_change(cloud):
    asked = []

    class Asked:
        real = cloud.api_volumes._real

        def __getattr__(self, name):
            return getattr(self.real, name)

        def reserve(self, context, volume_id, server, *more):
            asked.append(keep(cloud, server, volume_id, 409))
            return self.real.reserve(context, volume_id, server, *more)

    volume = cloud.volume(bootable=True)
    cloud.api_volumes._real = Asked()
    server = cloud.running(existing(volume, 0, delete_on_termination=True))
    assert ["task_state scheduling" in message for message in asked] == [True]
    assert cloud.device(server, volume).delete_on_termination


def test_a_device_that_is_gone_does_not_come_back(cloud, monkeypatch):
    """Declared idle by os-resetState in the middle of a rebuild, a server loses a volume."""
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.actions_end(server)
    held, go_on = cloud.hold(monkeypatch, "spawn")
    cloud.admin.post(f"/servers/{server}/action", {"rebuild": {"imageRef": cloud.image}}, 202)
    assert held.wait(30)
    cloud.admin.post(f"/servers/{server}/action", {"os-resetState": {"state": "active"}}, 202)
    cloud.set(server, block_devices=[])
    go_on.set()
    cloud.actions_end(server, 60)
    assert cloud.get(server).block_devices == []
