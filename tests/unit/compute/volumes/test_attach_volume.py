"""Attach and detach by REST, from the first check to the guest and back."""
import dataclasses
import time
import uuid

import pytest

from nova_lite import exception
from nova_lite.objects import states
from tests.unit.compute.volumes.volume_cloud import DIED, DOWN, made_of

NOWHERE = str(uuid.uuid4())


def test_attach_show_list_and_detach(cloud):
    server, volume = cloud.running(), cloud.volume(2)
    shown = cloud.attach(server, volume, tag="data", delete_on_termination=True)
    assert shown == {"id": volume, "volumeId": volume, "serverId": server, "device": "/dev/vdb", "tag": "data",
                     "delete_on_termination": True}
    path = f"/servers/{server}/os-volume_attachments"
    new = cloud.member.get(f"{path}/{volume}")["volumeAttachment"]
    device = cloud.device(server, volume)
    assert new == {"volumeId": volume, "serverId": server, "device": "/dev/vdb", "tag": "data", "delete_on_termination": True,
                   "attachment_id": device.attachment_id, "bdm_uuid": device.id}
    assert cloud.member.get(path)["volumeAttachments"] == [new]
    assert cloud.member.at("2.1").get(path)["volumeAttachments"] == [
        {"id": volume, "volumeId": volume, "serverId": server, "device": "/dev/vdb"}]
    assert cloud.member.at("2.70").get(f"{path}/{volume}")["volumeAttachment"]["tag"] == "data"
    assert "delete_on_termination" not in cloud.member.at("2.78").get(f"{path}/{volume}")["volumeAttachment"]
    [attachment] = cloud.attachments()
    assert (attachment["id"], attachment["server_id"], attachment["status"]) == (device.attachment_id, server, "attached")
    assert device.connection_info["driver_volume_type"] == "local"
    found = cloud.get(server)
    assert (found.vm_state, found.task_state, found.fault) == (states.ACTIVE, None, None)
    assert cloud.last_action(server)["action"] == "attach_volume"
    cloud.detach(server, volume)
    cloud.wait_for(lambda: cloud.status(volume) == "available")
    cloud.wait_for(lambda: cloud.get(server).block_devices == [])
    cloud.actions_end(server)
    assert (cloud.last_action(server)["action"], cloud.last_action(server)["message"]) == ("detach_volume", None)
    assert cloud.attachments() == []
    cloud.member.get(f"{path}/{volume}", 404)
    calls = cloud.drivers["h1"].calls
    assert [c for c in calls if "volume" in c and c != "volume_connector"] == [
        "connect_volume", "attach_volume", "detach_volume", "disconnect_volume"]


def test_volumes_are_shown_with_servers_without_another_query(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    for client, expected in ((cloud.member.at("2.1"), {"id": volume}),
                             (cloud.member.at("2.3"), {"id": volume, "delete_on_termination": False})):
        assert client.get(f"/servers/{server}")["server"]["os-extended-volumes:volumes_attached"] == [expected]
        [listed] = client.get("/servers/detail")["servers"]
        assert listed["os-extended-volumes:volumes_attached"] == [expected]


def test_from_2_101_the_answer_has_no_body(cloud):
    server, volume = cloud.running(), cloud.volume()
    answer = cloud.member.at("2.101").call("POST", f"/servers/{server}/os-volume_attachments",
                                           {"volumeAttachment": {"volumeId": volume}})
    assert (answer.status_code, answer.body) == (202, b"")
    cloud.wait_for(lambda: cloud.status(volume) == "in-use")


def test_pages_of_attachments(cloud):
    server = cloud.running()
    volumes = [cloud.volume() for _ in range(3)]
    for volume in volumes:
        cloud.attach(server, volume)
    path = f"/servers/{server}/os-volume_attachments"
    for query, expected in (("?limit=2", volumes[:2]), ("?limit=1&offset=1", volumes[1:2]), ("?offset=2", volumes[2:]),
                            ("?offset=9", [])):
        assert [a["volumeId"] for a in cloud.member.get(path + query)["volumeAttachments"]] == expected
    cloud.member.get(f"{path}?limit=-1", 400)
    cloud.member.get(f"{path}?colour=red", 400)
    cloud.member.at("2.74").get(f"{path}?colour=red")


def test_two_attaches_at_once_take_turns(cloud):
    server = cloud.running()
    volumes = [cloud.volume() for _ in range(4)]
    cloud.delay(0.05)
    devices = [cloud.attach(server, volume, wait=False)["device"] for volume in volumes]
    assert devices == ["/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde"]
    cloud.wait_for(lambda: all(cloud.status(v) == "in-use" for v in volumes))
    cloud.actions_end(server)
    assert [d.attached for d in cloud.get(server).block_devices] == [True] * 4
    cloud.detach(server, volumes[1])
    cloud.detach(server, volumes[2])
    cloud.wait_for(lambda: len(cloud.get(server).block_devices) == 2)
    assert [d.volume_id for d in cloud.get(server).block_devices] == [volumes[0], volumes[3]]
    # names that are free again are given again
    assert cloud.attach(server, volumes[1])["device"] == "/dev/vdc"


def test_a_volume_of_several_servers(cloud):
    servers, volume = [cloud.running(), cloud.running()], cloud.volume(volume_type="multiattach")
    path = f"/servers/{servers[0]}/os-volume_attachments"
    body = {"volumeAttachment": {"volumeId": volume}}
    assert "2.60" in cloud.member.at("2.59").fault("POST", path, 400, body)
    for server in servers:
        cloud.attach(server, volume)
        assert cloud.device(server, volume).multiattach
    assert len(cloud.attachments()) == 2
    cloud.detach(servers[0], volume)
    cloud.wait_for(lambda: len(cloud.attachments()) == 1)
    assert cloud.status(volume) == "in-use"
    cloud.delete(servers[1])
    assert cloud.status(volume) == "available"


@pytest.fixture
def encrypted(cloud, monkeypatch):
    """A volume that its service calls encrypted, with what the service says of it."""
    volume = cloud.volume()
    said = {"provider": "luks", "encryption_key_id": NOWHERE, "cipher": "aes-xts-plain64", "key_size": 256}
    cloud.volumes._volumes.write(volume, dataclasses.replace(cloud.volumes._volumes.read(volume), encrypted=True))
    real = cloud.volumes.connect

    def connect(*args):
        attachment = real(*args)
        attachment.connection_info["data"]["encrypted"] = True
        return attachment

    monkeypatch.setattr(cloud.volumes, "connect", connect)
    monkeypatch.setattr(cloud.volumes, "encryption", lambda context, volume_id: said if volume_id == volume else {})
    return volume, said


def test_how_a_volume_is_encrypted_the_host_is_told(cloud, encrypted):
    volume, said = encrypted
    assert cloud.api_volumes.get(cloud.user, volume).encrypted
    server = cloud.running()
    cloud.attach(server, volume)
    assert cloud.device(server, volume).connection_info["data"]["encryption"] == said
    assert cloud.host_volumes["h1"].calls.count("encryption") == 1
    plain = cloud.volume()
    cloud.attach(server, plain)
    assert cloud.host_volumes["h1"].calls.count("encryption") == 2      # this service calls all of its connections so
    assert cloud.device(server, plain).connection_info["data"]["encryption"] == {}


@pytest.mark.parametrize(("part", "method"), [("host_volumes", "encryption"), ("drivers", "connect_volume")])
def test_an_encrypted_volume_whose_key_is_out_of_reach_is_given_back(cloud, encrypted, part, method):
    volume, _said = encrypted
    server = cloud.running()
    away = exception.ServiceUnavailable(what="The key manager", reason="it is away")
    getattr(cloud, part)["h1"].fail(method, away)
    cloud.attach(server, volume, wait=False)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)
    request = cloud.last_action(server)["request_id"]
    detail = cloud.admin.get(f"/servers/{server}/os-instance-actions/{request}")["instanceAction"]
    assert detail["events"][0]["details"] == away.message


# what is refused ----------------------------------------------------------------------------------------------------------
def test_a_volume_that_nobody_has_or_somebody_else(cloud):
    server, volume = cloud.running(), cloud.volume()
    path = f"/servers/{server}/os-volume_attachments"
    assert cloud.member.fault("POST", path, 404, {"volumeAttachment": {"volumeId": NOWHERE}}) == \
        f"Volume {NOWHERE} could not be found."
    foreign = cloud.volumes.create(type(cloud.user)(project_id="other", auth_token="t", overwrite=False), 1).id
    cloud.member.fault("POST", path, 404, {"volumeAttachment": {"volumeId": foreign}})
    cloud.attach(server, volume)
    assert "already attached" in cloud.member.fault("POST", path, 400, {"volumeAttachment": {"volumeId": volume}})
    other = cloud.running()
    body = {"volumeAttachment": {"volumeId": volume}}
    message = cloud.member.fault("POST", f"/servers/{other}/os-volume_attachments", 400, body)
    assert message == f"Invalid volume: volume '{volume}' status must be 'available'. Currently in 'in-use' status"
    cloud.other.fault("POST", path, 404, {"volumeAttachment": {"volumeId": volume}})
    cloud.other.get(path, 404)
    for method, status in (("GET", 404), ("DELETE", 404)):
        cloud.member.fault(method, f"{path}/{NOWHERE}", status)
    assert len(cloud.get(server).block_devices) == 1
    assert cloud.get(other).block_devices == []


@pytest.mark.parametrize(("values", "attribute"), [
    ({"vm_state": states.ERROR}, "vm_state error"), ({"vm_state": states.SUSPENDED}, "vm_state suspended"),
    ({"vm_state": states.BUILDING}, "vm_state building"), ({"task_state": states.REBOOTING}, "task_state rebooting")])
def test_states_that_do_not_allow_it(cloud, values, attribute):
    server, volume, second = cloud.running(), cloud.volume(), cloud.volume()
    cloud.attach(server, second)
    cloud.actions_end(server)
    cloud.set(server, **values)
    path = f"/servers/{server}/os-volume_attachments"
    message = cloud.member.fault("POST", path, 409, {"volumeAttachment": {"volumeId": volume}})
    assert message == f"Cannot 'attach_volume' instance {server} while it is in {attribute}"
    assert "Cannot 'detach_volume'" in cloud.member.fault("DELETE", f"{path}/{second}", 409)
    cloud.set(server, vm_state=states.STOPPED, task_state=None, locked=True)
    assert cloud.member.fault("POST", path, 409, {"volumeAttachment": {"volumeId": volume}}) == f"Instance {server} is locked"
    assert cloud.member.fault("DELETE", f"{path}/{second}", 409) == f"Instance {server} is locked"
    assert cloud.status(volume) == "available"
    cloud.set(server, locked=False)
    cloud.attach(server, volume)


@pytest.mark.parametrize(("version", "values"), [
    ("2.1", {}), ("2.1", {"volumeId": "x"}), ("2.1", {"volumeId": NOWHERE, "device": "vdb"}),
    ("2.1", {"volumeId": NOWHERE, "tag": "x"}), ("2.49", {"volumeId": NOWHERE, "tag": "a,b"}),
    ("2.78", {"volumeId": NOWHERE, "delete_on_termination": True}), ("2.79", {"volumeId": NOWHERE, "delete_on_termination": 7}),
    ("2.1", {"volumeId": NOWHERE, "x": 1})])
def test_bodies_that_are_wrong(cloud, version, values):
    server = cloud.running()
    cloud.member.at(version).fault("POST", f"/servers/{server}/os-volume_attachments", 400, {"volumeAttachment": values})


def test_the_root_volume_stays(cloud):
    server = cloud.running(made_of("image", cloud.image))
    [root] = cloud.get(server).block_devices
    message = cloud.member.fault("DELETE", f"/servers/{server}/os-volume_attachments/{root.volume_id}", 400)
    assert message == "Cannot detach a root device volume"


def test_no_more_disks_than_letters(cloud):
    server, volume = cloud.running(), cloud.volume()
    device = {"id": "d", "source_type": "volume", "destination_type": "volume", "volume_id": NOWHERE}
    cloud.set(server, block_devices=[{**device, "id": f"d{n}"} for n in range(25)])
    body = {"volumeAttachment": {"volumeId": volume}}
    message = cloud.member.fault("POST", f"/servers/{server}/os-volume_attachments", 403, body)
    assert "maximum allowed number of disk devices (26)" in message
    cloud.set(server, block_devices=[])


def test_update_of_the_delete_flag(cloud):
    server, volume, other = cloud.running(), cloud.volume(), cloud.volume()
    cloud.attach(server, volume, tag="t")
    path = f"/servers/{server}/os-volume_attachments/{volume}"
    same = {"volumeId": volume, "id": volume, "serverId": server, "device": "/dev/vdb", "tag": "t"}
    cloud.member.put(path, {"volumeAttachment": {**same, "delete_on_termination": True}}, 202)
    assert cloud.device(server, volume).delete_on_termination
    assert cloud.device(server, volume).attached
    for key, value in (("device", "/dev/vdc"), ("tag", "u"), ("serverId", NOWHERE), ("id", NOWHERE)):
        message = cloud.member.fault("PUT", path, 400, {"volumeAttachment": {**same, key: value}})
        assert f"The {key} of a volume attachment cannot be changed" in message
    swap = {"volumeAttachment": {"volumeId": other}}
    cloud.member.fault("PUT", path, 403, swap)
    assert "is not migrating" in cloud.admin.fault("PUT", path, 409, swap)
    wrong = {"volumeAttachment": {"volumeId": other, "serverId": NOWHERE}}
    assert "The serverId of a volume attachment" in cloud.admin.fault("PUT", path, 400, wrong)
    cloud.admin.fault("PUT", path.replace(volume, other), 404, {"volumeAttachment": {"volumeId": volume}})
    cloud.admin.at("2.1").fault("PUT", path, 409, {"volumeAttachment": {"volumeId": volume}})
    cloud.member.at("2.84").fault("PUT", path, 400, {"volumeAttachment": {**same, "delete_on_termination": True}})
    cloud.member.fault("PUT", f"/servers/{server}/os-volume_attachments/{other}", 404,
                       {"volumeAttachment": {"volumeId": other, "delete_on_termination": True}})
    cloud.delete(server)
    assert cloud.status(volume) is None


# failures: nothing stays half attached ------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["connect", "complete"])
def test_the_volume_service_fails_in_the_middle(cloud, method):
    server, volume = cloud.running(), cloud.volume()
    cloud.host_volumes["h1"].fail(method)
    cloud.attach(server, volume, wait=False)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)
    action = cloud.last_action(server)
    assert (action["action"], action["message"]) == ("attach_volume", "Cinder is unavailable: it does not answer")
    detail = cloud.admin.get(f"/servers/{server}/os-instance-actions/{action['request_id']}")["instanceAction"]
    assert detail["events"][0]["details"] == DOWN.message
    cloud.attach(server, volume)


@pytest.mark.parametrize("method", ["connect_volume", "attach_volume"])
def test_the_hypervisor_fails(cloud, method):
    server, volume = cloud.running(), cloud.volume()
    cloud.drivers["h1"].fail(method, exception.DriverRefusal(what=method, reason="no more slots"), when="after")
    cloud.attach(server, volume, wait=False)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)
    assert cloud.get(server).vm_state == states.ACTIVE


def _nothing_is_left(cloud, server, volume):
    assert cloud.get(server).block_devices == []
    assert cloud.status(volume) == "available"
    assert cloud.attachments() == []


def test_the_volume_service_refuses_the_reservation(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.api_volumes.fail("reserve", exception.InvalidVolume(reason="somebody was faster"))
    path = f"/servers/{server}/os-volume_attachments"
    assert "somebody was faster" in cloud.member.fault("POST", path, 400, {"volumeAttachment": {"volumeId": volume}})
    _nothing_is_left(cloud, server, volume)
    assert cloud.last_action(server)["message"] == "Invalid volume: somebody was faster"


@pytest.mark.parametrize("when", ["before", "after"])
def test_nobody_knows_whether_it_was_reserved(cloud, when):
    server, volume = cloud.running(), cloud.volume()
    cloud.api_volumes.fail("reserve", when=when)
    path = f"/servers/{server}/os-volume_attachments"
    assert "Cinder is unavailable" in cloud.member.fault("POST", path, 503, {"volumeAttachment": {"volumeId": volume}})
    cloud.take_over()
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


def test_what_is_reserved_after_its_caller_gave_up_is_given_back(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.api_volumes.fail("reserve")
    cloud.member.fault("POST", f"/servers/{server}/os-volume_attachments", 503, {"volumeAttachment": {"volumeId": volume}})
    cloud.report("h1")
    cloud.sweep()
    time.sleep(0.3)
    cloud.volumes.reserve(cloud.user, volume, server)       # Cinder hung, and now does what waits there
    cloud.take_over()
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


def test_what_cannot_be_given_back_at_once_can_be_detached_later(cloud):
    server, volume = cloud.running(), cloud.volume()
    meddling = cloud.host_volumes["h1"]
    meddling.fail("connect")
    meddling.fail("release", times=5)
    cloud.attach(server, volume, wait=False)
    cloud.actions_end(server)
    device = cloud.device(server, volume)
    assert (device.attached, device.connection_info, cloud.status(volume)) == (False, None, "reserved")
    cloud.detach(server, volume)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


def test_a_guest_that_does_not_let_go_keeps_its_volume(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.drivers["h1"].fail("detach_volume", exception.DriverRefusal(what="detach", reason="the guest is busy"))
    cloud.detach(server, volume)
    cloud.actions_end(server)
    assert cloud.last_action(server)["message"] == "detach failed: the guest is busy"
    assert cloud.device(server, volume).attached
    assert cloud.status(volume) == "in-use"
    cloud.detach(server, volume)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


def test_the_volume_service_is_told_before_the_answer_and_may_refuse(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.api_volumes.fail("begin_detaching", exception.InvalidVolume(reason="it is being extended"))
    path = f"/servers/{server}/os-volume_attachments/{volume}"
    assert cloud.member.fault("DELETE", path, 400) == "Invalid volume: it is being extended"
    assert cloud.last_action(server)["message"] == "Invalid volume: it is being extended"
    cloud.api_volumes.fail("begin_detaching")       # who does not answer is asked again by the host
    cloud.detach(server, volume)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


def test_a_guest_that_keeps_its_volume_is_told_of(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.drivers["h1"].fail("detach_volume", exception.DriverRefusal(what="detach", reason="the guest is busy"))
    cloud.detach(server, volume)
    cloud.actions_end(server)
    assert "roll_detaching" in cloud.host_volumes["h1"].calls


def test_an_offloaded_server_has_its_new_volume_at_once_and_after_unshelve(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.member.post(f"/servers/{server}/action", {"shelve": None}, 202)
    cloud.wait(server, "shelved_offloaded", 20)
    shared = cloud.volume(volume_type="multiattach")
    for refused, more in ((shared, {}), (volume, {"tag": "data"})):
        message = cloud.member.fault("POST", f"/servers/{server}/os-volume_attachments", 400,
                                     {"volumeAttachment": {"volumeId": refused, **more}})
        assert "shelved" in message
        assert (cloud.status(refused), cloud.device(server, refused)) == ("available", None)
    cloud.attach(server, volume, wait=False)
    assert cloud.status(volume) == "in-use"
    cloud.member.post(f"/servers/{server}/action", {"unshelve": None}, 202)
    cloud.wait(server, states.ACTIVE, 20)
    assert cloud.device(server, volume).attached
    assert [a["status"] for a in cloud.attachments()] == ["attached"]


def test_a_detach_outlives_a_short_outage(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.host_volumes["h1"].fail("release", times=2)
    cloud.detach(server, volume)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


def test_one_detach_at_a_time(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.delay(0.3)
    cloud.detach(server, volume)
    message = cloud.member.fault("DELETE", f"/servers/{server}/os-volume_attachments/{volume}", 400)
    assert "in the middle of 'detach_volume'" in message
    cloud.delay(0.0)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


def test_a_detach_may_follow_its_attach_at_once(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.delay(0.2)
    cloud.attach(server, volume, wait=False)
    cloud.detach(server, volume)
    cloud.delay(0.0)
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)
    # whichever of the two the host took up first, neither failed
    ended = cloud.member.get(f"/servers/{server}/os-instance-actions")["instanceActions"]
    assert {(a["action"], a["message"]) for a in ended[:2]} == {("attach_volume", None), ("detach_volume", None)}


# kills --------------------------------------------------------------------------------------------------------------------
ATTACH_STEPS = [("volumes", "attachments"), ("volumes", "connect"), ("driver", "connect_volume"), ("driver", "attach_volume"),
                ("volumes", "complete")]
DETACH_STEPS = [("driver", "detach_volume"), ("driver", "disconnect_volume"), ("volumes", "release")]


def _kill(cloud, part, method, when):
    (cloud.host_volumes if part == "volumes" else cloud.drivers)["h1"].fail(method, DIED, when)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("part", "method"), ATTACH_STEPS)
def test_an_attach_goes_on_where_a_dead_daemon_left_it(cloud, part, method, when):
    server, volume = cloud.running(), cloud.volume()
    _kill(cloud, part, method, when)
    cloud.attach(server, volume, wait=False)
    cloud.wait_for(lambda: cloud.hosts["h1"].leases.in_flight() == [] and method in
                   (cloud.host_volumes if part == "volumes" else cloud.drivers)["h1"].calls)
    assert not cloud.device(server, volume).attached
    cloud.take_over()
    cloud.actions_end(server)
    assert cloud.device(server, volume).attached
    assert cloud.status(volume) == "in-use"
    assert len(cloud.attachments()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("part", "method"), DETACH_STEPS)
def test_a_detach_goes_on_where_a_dead_daemon_left_it(cloud, part, method, when):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.actions_end(server)
    _kill(cloud, part, method, when)
    cloud.detach(server, volume)
    cloud.wait_for(lambda: cloud.hosts["h1"].leases.in_flight() == [] and method in
                   (cloud.host_volumes if part == "volumes" else cloud.drivers)["h1"].calls)
    assert cloud.device(server, volume) is not None
    cloud.take_over()
    cloud.actions_end(server)
    _nothing_is_left(cloud, server, volume)


class Killed(BaseException):
    """The API process, at this line."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_attach_whose_api_died_goes_on(cloud, when):
    server, volume = cloud.running(), cloud.volume()
    cloud.api_volumes.fail("reserve", Killed(), when)
    with pytest.raises(Killed):
        cloud.member.call("POST", f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    assert cloud.device(server, volume) is not None
    cloud.report("h1")          # a host does not take what the API still works on
    assert cloud.last_action(server)["row"].state == "pending"
    cloud.take_over()
    cloud.actions_end(server)
    assert cloud.device(server, volume).attached
    assert len(cloud.attachments()) == 1


def test_a_dead_host_goes_on_when_it_is_back(cloud):
    server, volume = cloud.running(), cloud.volume()
    _kill(cloud, "driver", "attach_volume", "before")
    cloud.attach(server, volume, wait=False)
    cloud.wait_for(lambda: "attach_volume" in cloud.drivers["h1"].calls and cloud.hosts["h1"].leases.in_flight() == [])
    for _ in range(5):          # longer than there are attempts
        cloud.silence("h1")
        cloud.take_over()
    assert cloud.get(server).vm_state == states.ACTIVE
    assert cloud.last_action(server)["row"].state == "pending"
    cloud.report("h1")
    cloud.actions_end(server)
    assert cloud.device(server, volume).attached


def test_a_delete_takes_a_half_attached_volume_with_it(cloud):
    server, volume = cloud.running(), cloud.volume()
    _kill(cloud, "volumes", "complete", "before")
    cloud.attach(server, volume, wait=False)
    cloud.wait_for(lambda: "complete" in cloud.host_volumes["h1"].calls and cloud.hosts["h1"].leases.in_flight() == [])
    cloud.delete(server)
    assert cloud.status(volume) == "available"
    cloud.take_over()
    assert cloud.attachments() == []


def test_a_delete_gives_back_ports_though_the_volume_service_is_down(cloud, monkeypatch):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    released = []
    monkeypatch.setattr(type(cloud.hosts["h1"].host.network), "deallocate",
                        lambda _self, _context, instance: released.append(instance.uuid))
    cloud.host_volumes["h1"].fail("attachments")
    cloud.member.delete(f"/servers/{server}")
    cloud.wait(server, states.ERROR)
    assert released == [server]
    assert "Cinder" in cloud.get(server).fault["message"]
    cloud.delete(server)
    assert released == [server, server]
    assert cloud.status(volume) == "available"


def test_stop_start_and_reboot_keep_the_stored_connection(cloud):
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    info = cloud.device(server, volume).connection_info
    for action, state in (({"os-stop": None}, states.STOPPED), ({"os-start": None}, states.ACTIVE),
                          ({"reboot": {"type": "HARD"}}, states.ACTIVE)):
        cloud.member.ask("POST", f"/servers/{server}/action", action, 202)
        cloud.wait(server, state)
    assert cloud.device(server, volume).connection_info == info
    assert cloud.drivers["h1"].calls.count("connect_volume") == 1
