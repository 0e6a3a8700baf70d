"""Servers with volumes of their own making or choice, from POST to delete."""
import datetime
import json
import uuid

import pytest

from nova_lite import exception, units
from nova_lite.compute import recovery
from nova_lite.db import actions, models
from nova_lite.objects import action as action_objects
from nova_lite.objects import states
from nova_lite.virt.fake import FakeDriver
from tests.unit.compute.volumes.volume_cloud import DIED, DOWN, Meddling, existing, made_of

NOWHERE = str(uuid.uuid4())


def local_image(cloud, **more):
    return {"source_type": "image", "destination_type": "local", "uuid": cloud.image, "boot_index": 0, **more}


def local_blank(size, **more):
    return {"source_type": "blank", "destination_type": "local", "volume_size": size, **more}


def test_from_an_image(cloud):
    server = cloud.running(made_of("image", cloud.image, 2, delete_on_termination=True, tag="root"), flavorRef="0")
    shown = cloud.admin.get(f"/servers/{server}")["server"]
    assert shown["image"] == ""
    assert shown["OS-EXT-SRV-ATTR:root_device_name"] == "/dev/vda"
    [root] = cloud.get(server).block_devices
    assert shown["os-extended-volumes:volumes_attached"] == [{"id": root.volume_id, "delete_on_termination": True}]
    assert (root.device_name, root.attached, root.tag, root.size) == ("/dev/vda", True, "root", 2)
    assert cloud.get(server).device_addresses[root.id].startswith("0000:00:")
    volume = cloud.volumes.get(cloud.user, root.volume_id)
    assert (volume.status, volume.size, volume.project_id) == ("in-use", 2, "p")
    assert volume.metadata == {"nova_lite_server": server, "nova_lite_device": root.id}
    assert cloud.get(server).image.properties["os_type"] == "linux"
    assert [a["status"] for a in cloud.attachments()] == ["attached"]
    cloud.delete(server)
    assert cloud.all_volumes() == set()


def test_the_room_of_the_root_disk_is_not_claimed(cloud):
    server = cloud.running(made_of("image", cloud.image), flavorRef="1")
    with cloud.db.read() as conn:
        [claim] = conn.execute(models.allocations.select().where(models.allocations.c.instance_uuid == server)).all()
    assert claim.disk_gb == 0
    plain = cloud.running()
    with cloud.db.read() as conn:
        [claim] = conn.execute(models.allocations.select().where(models.allocations.c.instance_uuid == plain)).all()
    assert claim.disk_gb == 10


def test_from_a_snapshot_and_from_a_volume_of_it(cloud):
    source = cloud.volume(1, image_id=cloud.image)
    snapshot = cloud.volumes.create_snapshot(cloud.user, source).id
    server = cloud.running(made_of("snapshot", snapshot, None), imageRef="")
    [root] = cloud.get(server).block_devices
    assert (root.size, root.source_id) == (1, snapshot)
    assert cloud.get(server).image.properties["hw_disk_bus"] == "virtio"
    cloud.delete(server)
    assert cloud.status(root.volume_id) == "available"
    again = cloud.running(existing(root.volume_id, 0))
    assert cloud.status(root.volume_id) == "in-use"
    assert cloud.get(again).image_ref == ""
    assert cloud.get(again).image.properties["os_type"] == "linux"
    cloud.delete(again)
    assert cloud.status(root.volume_id) == "available"
    assert cloud.attachments() == []


def test_an_image_of_a_server_with_volumes_brings_them_along(cloud):
    data = cloud.volume()
    server = cloud.running(made_of("image", cloud.image, 2), existing(data))
    root = cloud.get(server).block_devices[0].volume_id
    body = {"createImage": {"name": "both", "metadata": {"bdm_v2": "no"}}}
    image = cloud.member.post(f"/servers/{server}/action", body, 202)["image_id"]
    shown = cloud.services.image.get(cloud.user, image)
    assert (shown.status, shown.size, shown.properties["root_device_name"]) == ("active", 0, "/dev/vda")
    assert sorted(s.volume_id for s in cloud.volumes.list_snapshots(cloud.user)) == sorted([root, data])
    copy = cloud.running(imageRef=image)
    devices = {d.device_name: d for d in cloud.get(copy).block_devices}
    assert [(devices[n].source_type, devices[n].size) for n in ("/dev/vda", "/dev/vdb")] == [("snapshot", 2), ("snapshot", 1)]
    assert {d.volume_id for d in devices.values()}.isdisjoint({root, data, None})
    # as Nova: the image that the request named, also when the root disk is a volume
    assert cloud.member.get(f"/servers/{copy}")["server"]["image"]["id"] == image
    assert [s["id"] for s in cloud.member.get(f"/servers?image={image}")["servers"]] == [copy]


def test_an_image_with_a_mapping_that_is_none_is_a_mistake_of_its_maker(cloud):
    snapshot = cloud.volumes.create_snapshot(cloud.user, cloud.volume(1, image_id=cloud.image)).id
    good = {"source_type": "snapshot", "destination_type": "volume", "snapshot_id": snapshot, "boot_index": 0}
    wrong = [{"source_type": "tape"}, {"source_type": ["snapshot"]}, {"source_type": {}}, {"volume_size": "abc"},
             {"volume_size": -5}, {"volume_size": True}, {"volume_size": 2 ** 40}, {"volume_size": 1.5}, {"boot_index": [0]},
             {"boot_index": "first"}, {"snapshot_id": {"a": 1}}, {"volume_id": [1]}, {"image_id": "x"}, {"device_name": ["a"]},
             {"device_name": "/dev/vd a"}, {"disk_bus": {}}, {"device_type": []}, {"guest_format": 5}, {"tag": "a,b"},
             {"volume_type": ["fast"]}, {"delete_on_termination": [1]}, {"no_device": {}}, {"destination_type": "moon"}]
    texts = ["[" * 50_000, "{}", "[1]", "[[]]", "5", "nothing", "[" + "1" * 5000 + "]"]
    for text in [*texts, *(json.dumps([{**good, **one}]) for one in wrong)]:
        made = cloud.services.image.create(cloud.user, {"name": "i", "disk_format": "raw", "properties": {
            "bdm_v2": "True", "block_device_mapping": text}})
        image = cloud.services.image.upload(cloud.user, made.id, [b"x"]).id
        assert "Block Device Mapping is Invalid" in cloud.boot(status=400, imageRef=image), text[:200]
    text = json.dumps([{**good, "volume_size": None, "encrypted": False, "connection_info": {}}])      # as Nova writes it
    made = cloud.services.image.create(cloud.user, {"name": "i", "disk_format": "raw", "properties": {
        "bdm_v2": "True", "block_device_mapping": text}})
    cloud.running(imageRef=cloud.services.image.upload(cloud.user, made.id, [b"x"]).id)


def test_an_image_of_a_server_with_volumes_that_is_refused_leaves_no_snapshot(cloud):
    server = cloud.running(made_of("image", cloud.image, 2))
    cloud.services.compute.image = Meddling(cloud.services.image)
    cloud.services.compute.image.fail("create", exception.Forbidden("too many images"))
    cloud.member.post(f"/servers/{server}/action", {"createImage": {"name": "both"}}, 403)
    cloud.actions_end(server)
    assert cloud.volumes.list_snapshots(cloud.user) == []


def test_an_image_on_the_local_disk_with_blank_and_existing_volumes(cloud):
    volume = cloud.volume(3)
    server = cloud.running(local_image(cloud), made_of("blank", None, 2, None, delete_on_termination=True),
                           existing(volume, None, tag="mine"), imageRef=cloud.image)
    blank, mine = cloud.get(server).block_devices
    assert (blank.device_name, mine.device_name) == ("/dev/vdb", "/dev/vdc")
    assert cloud.volumes.get(cloud.user, blank.volume_id).name == f"{server}-blank-vol"
    assert cloud.member.get(f"/servers/{server}")["server"]["image"]["id"] == cloud.image
    cloud.delete(server)
    assert cloud.all_volumes() == {volume}
    assert cloud.status(volume) == "available"


def test_blank_root_boots_nothing_but_is_allowed(cloud):
    server = cloud.running(made_of("blank", None, 1))
    assert cloud.get(server).is_volume_backed


def test_nobody_asks_whether_the_root_volume_is_bootable_when_an_image_is_named_too(cloud):
    volume = cloud.volume(1)
    server = cloud.running(existing(volume, 0), imageRef=cloud.image)
    assert [device.volume_id for device in cloud.get(server).block_devices if device.is_root] == [volume]


def test_the_old_mapping(cloud):
    volume, data = cloud.volume(1, bootable=True), cloud.volume()
    body = {"server": {"name": "vm", "flavorRef": "1", "imageRef": "", "block_device_mapping": [
        {"device_name": "vda", "volume_id": volume, "delete_on_termination": "1"},
        {"device_name": "/dev/vdc", "volume_id": data, "delete_on_termination": False}]}}
    server = cloud.member.at("2.1").post("/servers", body, 202)["server"]["id"]
    cloud.wait(server, states.ACTIVE, 10)
    root, second = cloud.get(server).block_devices
    assert (root.volume_id, root.is_root, root.delete_on_termination) == (volume, True, True)
    assert (second.volume_id, second.device_name, second.boot_index) == (data, "/dev/vdc", None)
    cloud.delete(server)
    assert (cloud.status(volume), cloud.status(data)) == (None, "available")


def test_several_servers_have_a_volume_each(make_volume_cloud):
    cloud = make_volume_cloud("h1", "h2")
    body = {"server": {"name": "vm", "networks": "none", "flavorRef": "1", "min_count": 3, "return_reservation_id": True,
                       "block_device_mapping_v2": [made_of("image", cloud.image, delete_on_termination=True)]}}
    reservation = cloud.member.post("/servers", body, 202)["reservation_id"]
    servers = [s["id"] for s in cloud.member.get(f"/servers?reservation_id={reservation}")["servers"]]
    assert len(servers) == 3
    for server in servers:
        cloud.wait(server, states.ACTIVE, 10)
    assert len({cloud.get(server).block_devices[0].volume_id for server in servers}) == 3
    for server in servers:
        cloud.delete(server)
    assert cloud.all_volumes() == set()


def test_a_multiattach_volume_of_two_new_servers(cloud):
    volume = cloud.volume(volume_type="multiattach")
    for _ in range(2):
        cloud.running(local_image(cloud), existing(volume), imageRef=cloud.image)
    assert len(cloud.attachments()) == 2
    body = {"name": "vm", "flavorRef": "1", "networks": "none", "imageRef": cloud.image,
            "block_device_mapping_v2": [local_image(cloud), existing(volume)]}
    assert "2.60" in cloud.member.at("2.59").fault("POST", "/servers", 400, {"server": body})


def test_swap_and_ephemeral_disks_of_the_flavor(cloud):
    swap = {"source_type": "blank", "destination_type": "local", "guest_format": "swap", "volume_size": 256, "boot_index": -1}
    ephemeral = {"source_type": "blank", "destination_type": "local", "volume_size": 2, "boot_index": -1}
    server = cloud.running(local_image(cloud), swap, ephemeral, imageRef=cloud.image, flavorRef="e")
    found = cloud.get(server)
    assert (found.swap_mb, found.ephemeral_disks) == (256, [2])
    assert cloud.member.get(f"/servers/{server}")["server"]["os-extended-volumes:volumes_attached"] == []
    plain = cloud.get(cloud.running(flavorRef="e"))
    assert (plain.swap_mb, plain.ephemeral_disks, plain.block_devices) == (512, [4], [])


def test_several_ephemeral_disks_within_the_flavor(cloud):
    server = cloud.running(local_image(cloud), local_blank(3), local_blank(1), imageRef=cloud.image, flavorRef="noswap")
    found = cloud.get(server)
    assert found.ephemeral_disks == [3, 1]
    assert [d.device_name for d in found.block_devices if d.is_ephemeral] == ["/dev/vdb", "/dev/vdc"]
    on_volume = cloud.running(made_of("image", cloud.image, 2), *[local_blank(1)] * 3, flavorRef="noswap")
    assert cloud.get(on_volume).ephemeral_disks == [1, 1, 1]
    legacy = [{"device_name": "/dev/vdb", "virtual_name": f"ephemeral{number}", "volume_size": 2} for number in (0, 1)]
    body = {"name": "vm", "flavorRef": "noswap", "imageRef": cloud.image, "block_device_mapping": legacy}
    old = cloud.member.at("2.1").post("/servers", {"server": body}, 202)["server"]["id"]
    assert cloud.get(old).ephemeral_disks == [2, 2]


# what is refused ----------------------------------------------------------------------------------------------------------
def refusals(cloud):
    bootable, blank, small = cloud.volume(1, bootable=True), cloud.volume(), cloud.volume(1, image_id=cloud.image)
    taken = cloud.volume()
    cloud.volumes.reserve(cloud.user, taken, NOWHERE)
    snapshot = cloud.volumes.create_snapshot(cloud.user, cloud.volume(3)).id
    assert small
    return [
        ([existing(NOWHERE, 0)], {}, f"Block Device Mapping is Invalid: failed to get volume {NOWHERE}."),
        ([made_of("snapshot", NOWHERE)], {}, f"Block Device Mapping is Invalid: failed to get snapshot {NOWHERE}."),
        ([made_of("image", NOWHERE)], {}, f"Block Device Mapping is Invalid: failed to get image {NOWHERE}."),
        ([existing(blank, 0)], {}, f"Block Device {blank} is not bootable."),
        ([existing(bootable)], {}, "Boot sequence"), ([existing(bootable, 1)], {}, "Boot sequence"),
        ([existing(bootable, 0), existing(blank, 2)], {}, "Boot sequence"),
        ([existing(bootable, 0), existing(blank, 0)], {}, "Boot sequence"),
        ([existing(bootable, 0), existing(bootable, 1)], {}, "The same volume is given more than once."),
        ([existing(bootable, 0), existing(taken)], {}, f"volume '{taken}' status must be 'available'. Currently in 'reserved'"),
        ([made_of("image", cloud.image, None)], {}, "destination_type 'volume' need to have a non-zero size specified"),
        ([made_of("image", cloud.image, 0)], {}, "need to have a non-zero size"),
        ([made_of("blank", None, None)], {}, "Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size"),
        ([made_of("snapshot", snapshot, 2)], {}, "needs 3 GiB"),
        ([existing(bootable, 0)], {"min_count": 2}, "Cannot attach one or more volumes to multiple instances"),
        ([local_image(cloud)], {}, "Mapping image to local is not supported."),
        ([local_image(cloud, uuid=NOWHERE)], {"imageRef": cloud.image}, "is not the image"),
        ([local_image(cloud, volume_type="x")], {"imageRef": cloud.image}, "volume_type with destination_type=local"),
        ([{"boot_index": 0}], {}, "Missing source_type field."), ([{"source_type": "volume"}], {}, "Missing device UUID."),
        ([{"source_type": "blank", "uuid": NOWHERE}], {}, "Invalid device UUID."),
        ([existing(NOWHERE, 0, destination_type="local")], {}, "cannot be a local disk"),
        ([existing("x", 0)], {}, "x is not the id of a volume."),
        ([local_image(cloud)] + [local_blank(1)] * 3,
         {"imageRef": cloud.image, "flavorRef": "e"}, "You specified more local devices than the limit allows"),
        ([local_image(cloud)] + [local_blank(1)] * 2,       # and the swap disk of the flavor
         {"imageRef": cloud.image, "flavorRef": "e"}, "You specified more local devices than the limit allows"),
        ([local_image(cloud), local_blank(5)],
         {"imageRef": cloud.image, "flavorRef": "e"}, "Ephemeral disks requested are larger"),
        ([local_image(cloud), local_blank(3), local_blank(2)],
         {"imageRef": cloud.image, "flavorRef": "e"}, "Ephemeral disks requested are larger"),
        ([local_image(cloud), local_blank(1), {"source_type": "blank", "destination_type": "local"}],
         {"imageRef": cloud.image, "flavorRef": "e"}, "Ephemeral disks requested are larger"),
        ([local_image(cloud), local_blank(513, guest_format="swap")],
         {"imageRef": cloud.image, "flavorRef": "e"}, "Swap drive requested is larger"),
        ([made_of("image", cloud.image, tag="a"), existing(blank, None, tag="a")], {}, "The same device tag"),
        ([made_of("image", cloud.image, disk_bus="floppy")], {}, "disk_bus floppy"),
        ([local_image(cloud), local_blank(1, guest_format="xfs")],
         {"imageRef": cloud.image, "flavorRef": "e"}, "guest_format xfs is not offered"),
    ]


def test_wrong_mappings_name_their_cause_and_take_nothing(cloud):
    before = None
    for devices, values, text in refusals(cloud):
        before = before or cloud.all_volumes()
        message = cloud.boot(*devices, status=400, **values)
        assert text in message, (devices, message)
    assert "Invalid imageRef provided." in cloud.boot(status=400)
    assert cloud.member.get("/servers")["servers"] == []
    assert len(cloud.attachments()) == 1
    assert cloud.all_volumes() == before
    cloud.boot(made_of("image", cloud.image), *[made_of("blank", None, 1, None)] * 26, status=403)


def test_a_volume_too_small_for_the_image(cloud):
    made = cloud.services.image.create(cloud.user, {"name": "big", "min_disk": 5, "disk_format": "raw"})
    image = cloud.services.image.upload(cloud.user, made.id, [b"x"]).id
    message = cloud.boot(made_of("image", image, 4), status=400)
    assert message.startswith("Volume is smaller than the minimum size specified in image metadata. Volume size is 4294967296")
    cloud.running(made_of("image", image, 5), flavorRef="0")


def test_a_flavor_without_disk_is_for_volumes_only(cloud):
    message = cloud.boot(imageRef=cloud.image, flavorRef="0", status=403)
    assert message == "Only volume-backed servers are allowed for flavors with zero disk."


def test_both_mappings_at_once(cloud):
    message = cloud.boot(local_image(cloud), imageRef=cloud.image, block_device_mapping=[{"volume_id": NOWHERE}], status=400)
    assert message == "Using different block_device_mapping syntaxes is not allowed in the same request."


# failures before the answer -----------------------------------------------------------------------------------------------
def gone(cloud, *kept):
    """No server, and of the volumes only ``kept``, which are free."""
    cloud.wait_for(lambda: cloud.member.get("/servers")["servers"] == [], 10)
    assert cloud.all_volumes() == set(kept)
    assert cloud.attachments() == []


@pytest.mark.parametrize(("error", "status"), [
    (exception.OverQuota("VolumeLimitExceeded: no more volumes"), 403), (DOWN, 503),
    (exception.NotFound("Volume type x could not be found."), 400)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_volume_that_cannot_be_created_undoes_the_request(cloud, error, status, when):
    volume = cloud.volume()
    cloud.api_volumes.fail("create", error, when)
    devices = (existing(volume, None), made_of("image", cloud.image))
    assert str(error).rpartition(": ")[2] in cloud.boot(*devices, status=status)
    gone(cloud, volume)
    assert cloud.status(volume) == "available"
    cloud.delete(cloud.running(*devices))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_volume_that_cannot_be_reserved_undoes_the_request(cloud, when):
    volume = cloud.volume()
    cloud.api_volumes.fail("reserve", exception.InvalidVolume(reason="somebody was faster"), when)
    message = cloud.boot(made_of("image", cloud.image), existing(volume, None), status=400)
    assert "somebody was faster" in message
    gone(cloud, volume)


def test_a_delete_while_volumes_are_made(cloud):
    real = cloud.api_volumes._real
    cloud.api_volumes._real = type("Slow", (), {
        "__getattr__": lambda _self, name: getattr(real, name),
        "create": lambda _self, *args, **kwargs: (cloud.delete(cloud.member.get("/servers")["servers"][0]["id"]),
                                                  real.create(*args, **kwargs))[1]})()
    cloud.boot(made_of("image", cloud.image), status=409)
    cloud.api_volumes._real = real
    gone(cloud)


class Killed(BaseException):
    """The API process, at this line."""


@pytest.mark.parametrize(("method", "when", "ends"), [
    ("reserve", "before", states.ACTIVE), ("reserve", "after", states.ACTIVE), ("create", "after", states.ACTIVE),
    ("create", "before", states.ERROR)])
def test_the_build_goes_on_or_says_why_when_the_api_died(cloud, method, when, ends):
    volume = cloud.volume()
    cloud.api_volumes.fail(method, Killed(), when)
    with pytest.raises(Killed):
        cloud.boot(existing(volume, None), made_of("image", cloud.image, delete_on_termination=True))
    [server] = [s["id"] for s in cloud.member.get("/servers")["servers"]]
    if method == "reserve":     # what comes after it the API has not made either
        with cloud.db.read() as conn:
            device = next(d for d in cloud.get(server).block_devices if d.source_type == "image")
            assert actions.open_of_instances(conn, [server])[server][0].stage == action_objects.API
        cloud.volumes.create(cloud.user, 1, image_id=cloud.image,
                             metadata={"nova_lite_server": server, "nova_lite_device": device.id})
    cloud.take_over()
    found = cloud.wait(server, ends, 10)
    if ends == states.ERROR:
        assert "was not created: the API that took the request stopped in between" in found.fault["message"]
        assert cloud.attachments() == []
    cloud.delete(server)
    gone(cloud, volume)


# failures of the build ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["attachments", "get", "reserve", "connect", "complete"])
def test_the_volume_service_fails_during_the_build(make_volume_cloud, method):
    cloud = make_volume_cloud("h1", "h2")
    volume = cloud.volume()
    for host in ("h1", "h2"):
        cloud.host_volumes[host].fail(method)
    server = cloud.boot(made_of("image", cloud.image, delete_on_termination=True), existing(volume, None))
    found = cloud.wait(server, states.ERROR, 10)
    assert "Cinder is unavailable: it does not answer" in found.fault["message"]
    cloud.wait_for(lambda: cloud.attachments() == [])
    assert cloud.guests("h1") == cloud.guests("h2") == {}
    assert all(d.connection_info is None and not d.attached for d in found.block_devices)
    cloud.delete(server)
    gone(cloud, volume)


def test_the_next_host_takes_the_volumes_over(make_volume_cloud):
    cloud = make_volume_cloud("h1", "h2")
    volume = cloud.volume()
    cloud.fail("spawn@h1")
    servers = [cloud.boot(made_of("image", cloud.image), existing(volume, None)), cloud.boot(made_of("blank", None))]
    for server in servers:
        assert cloud.wait(server, states.ACTIVE, 10).host == "h2"
    assert len(cloud.attachments()) == 3
    assert cloud.status(volume) == "in-use"


def test_a_volume_that_becomes_an_error(cloud):
    cloud.api_volumes._real = type("Breaking", (), {
        "__getattr__": lambda _self, name: getattr(cloud.volumes, name),
        "create": lambda _self, *args, **kwargs: broken(cloud, cloud.volumes.create(*args, **kwargs))})()
    server = cloud.boot(made_of("image", cloud.image, delete_on_termination=True))
    found = cloud.wait(server, states.ERROR)
    assert "did not finish being created even after we waited" in found.fault["message"]
    assert "its status is error" in found.fault["message"]
    assert "Hosts tried" not in found.fault["message"]
    cloud.delete(server)
    gone(cloud)


def broken(cloud, volume):
    cloud.wait_for(lambda: cloud.status(volume.id) == "available")
    with cloud.volumes._lock.held():        # the thread that makes the volume may not have written its status yet
        record = cloud.volumes._volumes.read(volume.id)
        record.status = "error"
        cloud.volumes._volumes.write(volume.id, record)
    return volume


def test_a_delete_ends_the_waiting_for_a_volume(cloud):
    host = cloud.host_volumes["h1"]
    host._real = type("Making", (), {
        "__getattr__": lambda _self, name: getattr(cloud.volumes, name),
        "get": lambda _self, context, volume: making(cloud.volumes.get(context, volume))})()
    server = cloud.boot(made_of("image", cloud.image, delete_on_termination=True))
    cloud.wait_for(lambda: cloud.get(server).task_state == states.BLOCK_DEVICE_MAPPING and host.calls.count("get") > 2)
    cloud.delete(server)
    gone(cloud)


def making(volume):
    volume.status = "creating"
    return volume


def test_no_valid_host_gives_the_volumes_back(make_volume_cloud):
    cloud = make_volume_cloud("h1", fake__memory_mb=100, compute__reserved_host_memory_mb=0)
    volume = cloud.volume(1, bootable=True)
    server = cloud.boot(existing(volume, 0))
    cloud.wait(server, states.ERROR)
    cloud.wait_for(lambda: cloud.status(volume) == "available")
    cloud.delete(server)
    gone(cloud, volume)


BUILD_STEPS = [("volumes", "attachments"), ("volumes", "connect"), ("driver", "connect_volume"), ("driver", "spawn"),
               ("volumes", "complete"), ("volumes", "reserve")]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("part", "method"), BUILD_STEPS)
def test_a_build_goes_on_where_a_dead_daemon_left_it(cloud, part, method, when):
    volume = cloud.volume()
    meddling = (cloud.host_volumes if part == "volumes" else cloud.drivers)["h1"]
    meddling.fail(method, DIED, when)
    server = cloud.boot(made_of("image", cloud.image, delete_on_termination=True), existing(volume, None))
    cloud.wait_for(lambda: method in meddling.calls and cloud.hosts["h1"].leases.in_flight() == [])
    cloud.take_over()
    found = cloud.wait(server, states.ACTIVE, 10)
    assert [d.attached for d in found.block_devices] == [True, True]
    assert sorted(a["id"] for a in cloud.attachments()) == sorted(d.attachment_id for d in found.block_devices)
    cloud.delete(server)
    gone(cloud, volume)


def test_a_build_whose_host_died_takes_its_volumes_to_another(make_volume_cloud):
    cloud = make_volume_cloud("h1", "h2")
    for host in ("h1", "h2"):
        cloud.drivers[host].fail("spawn", DIED)
    server = cloud.boot(made_of("image", cloud.image))
    cloud.wait_for(lambda: cloud.get(server).task_state == states.SPAWNING)
    dead = cloud.get(server).host
    cloud.wait_for(lambda: cloud.hosts[dead].leases.in_flight() == [])
    cloud.drivers["h1" if dead == "h2" else "h2"].heal()
    cloud.silence(dead)
    cloud.take_over()
    found = cloud.wait(server, states.ACTIVE, 10)
    assert found.host != dead
    assert [a["id"] for a in cloud.attachments()] == [found.block_devices[0].attachment_id]


# deletes ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("part", "method"), [("driver", "disconnect_volume"), ("volumes", "attachments"),
                                              ("volumes", "release"), ("volumes", "delete")])
def test_a_delete_goes_on_where_a_dead_daemon_left_it(cloud, part, method, when):
    volume = cloud.volume()
    server = cloud.running(made_of("image", cloud.image, delete_on_termination=True), existing(volume, None))
    meddling = (cloud.host_volumes if part == "volumes" else cloud.drivers)["h1"]
    meddling.calls.clear()
    meddling.fail(method, DIED, when)
    cloud.member.delete(f"/servers/{server}")
    cloud.wait_for(lambda: method in meddling.calls and cloud.hosts["h1"].leases.in_flight() == [])
    assert not cloud.get(server).deleted
    cloud.take_over()
    gone(cloud, volume)


def test_a_delete_while_the_volume_service_is_down_can_be_done_again(cloud):
    server = cloud.running(made_of("image", cloud.image, delete_on_termination=True))
    cloud.host_volumes["h1"].fail("release")
    cloud.member.delete(f"/servers/{server}")
    found = cloud.wait(server, states.ERROR)
    assert "Cinder is unavailable" in found.fault["message"]
    cloud.delete(server)
    gone(cloud)


@pytest.mark.parametrize("down", [True, False])
def test_a_delete_on_a_dead_host_is_the_conductors(cloud, down):
    volume = cloud.volume()
    server = cloud.running(made_of("image", cloud.image, delete_on_termination=True), existing(volume, None))
    cloud.conductor_volumes.fail("attachments", times=int(down))
    cloud.drivers["h1"].fail("destroy", DIED)
    cloud.member.delete(f"/servers/{server}")
    cloud.wait_for(lambda: "destroy" in cloud.drivers["h1"].calls and cloud.hosts["h1"].leases.in_flight() == [])
    cloud.silence("h1")
    cloud.take_over()
    if down:
        assert "Cinder is unavailable" in cloud.wait(server, states.ERROR).fault["message"]
        cloud.silence("h1")
        cloud.member.delete(f"/servers/{server}")
        cloud.wait_for(lambda: cloud.get(server).deleted)
    gone(cloud, volume)


def test_a_volume_that_cannot_be_deleted_does_not_keep_the_server(cloud):
    server = cloud.running(made_of("image", cloud.image, delete_on_termination=True))
    [root] = cloud.get(server).block_devices
    cloud.volumes.create_snapshot(cloud.user, root.volume_id, force=True)
    cloud.delete(server)
    assert cloud.status(root.volume_id) == "available"


def test_guests_of_other_hosts_are_removed_with_their_connections(cloud):
    server = cloud.running(made_of("image", cloud.image))
    instance = cloud.get(server)
    cloud.set(server, host="elsewhere")
    recovery.remove(cloud.hosts["h1"].host, instance)
    assert cloud.drivers["h1"].calls[-1] == "disconnect_volume"
    assert isinstance(cloud.drivers["h1"]._real, FakeDriver)


# what came too late -------------------------------------------------------------------------------------------------------
def test_what_came_to_be_after_the_delete_is_found_and_given_back(cloud):
    volume = cloud.volume()
    server = cloud.running(existing(volume, None), local_image(cloud), imageRef=cloud.image)
    cloud.delete(server)
    cloud.volumes.reserve(cloud.user, volume, server)       # a request whose answer nobody waited for
    cloud.conductor.leaked_resources.run()
    assert cloud.status(volume) == "reserved"
    cloud.run(models.instances.update().values(deleted_at=units.utcnow() - datetime.timedelta(hours=1)))
    cloud.conductor.leaked_resources.interval = 60.0
    cloud.conductor.leaked_resources.run()
    assert cloud.status(volume) == "available"


def test_a_host_that_was_given_up_keeps_no_secret_of_a_deleted_server(cloud):
    volume, driver = cloud.volume(bootable=True), cloud.drivers["h1"]
    connect = driver.connect_volume

    def connect_late(instance, device, connection_info):
        made = connect(instance, device, connection_info)
        cloud.member.delete(f"/servers/{instance.uuid}")
        cloud.silence("h1")
        # again and again: the host may take the delete between the end of the leases and the sweep
        cloud.wait_for(lambda: cloud.take_over() or cloud.get(instance.uuid).deleted)
        return made
    driver.connect_volume = connect_late
    server = cloud.boot(existing(volume, 0))
    cloud.wait_for(lambda: cloud.get(server).deleted and cloud.hosts["h1"].leases.in_flight() == [])
    assert driver.calls[-1] == "disconnect_volume"
    assert cloud.guests("h1") == {}
    assert cloud.attachments() == []
