"""The Cinder driver against a small fake one: what is sent, and what its answers and refusals become."""
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.volume.cinder import CinderVolumes
from tests.support.fake_cinder import SECRET, FakeCinder, fault
from tests.support.fake_openstack import PROJECT, FakeOpenStack

ALICE = RequestContext(project_id="alice", user_id="a", auth_token="alice-token", overwrite=False)
BOB = RequestContext(project_id="bob", user_id="b", auth_token="bob-token", overwrite=False)
SERVICE = admin_context()
SERVER = str(uuid.uuid4())


@pytest.fixture
def cinder():
    made = FakeCinder()
    made.tokens = {"alice-token": "alice", "bob-token": "bob"}
    return made


@pytest.fixture(params=["block-storage", "volumev3"])
def openstack(request, cinder):
    made = FakeOpenStack(request.param, cinder, path=f"/v3/{PROJECT}" if request.param == "volumev3" else "",
                         versions={"v3.71": "/v3/"})
    yield made
    made.close()


@pytest.fixture
def volumes(openstack, tmp_path):
    file = tmp_path / "conf"
    file.write_text("[service_user]\n" + "\n".join(f"{k} = {v}" for k, v in openstack.options.items()))
    return CinderVolumes(nova_lite.conf.load([], config_files=[str(file)]))


def test_the_life_of_a_volume_and_its_attachment(volumes, cinder):
    made = volumes.create(ALICE, 2, "data", "mine", image_id="img", volume_type="lvm", availability_zone="nova",
                          metadata={"a": "b"})
    assert (made.status, made.size, made.name, made.project_id, made.metadata, made.bootable, made.source_image) == (
        "creating", 2, "data", "alice", {"a": "b"}, True, "img")
    cinder.volumes[made.id]["status"] = "available"
    reserved = volumes.reserve(ALICE, made.id, SERVER)
    assert (reserved.volume_id, reserved.server_id, reserved.status, reserved.connection_info) == (
        made.id, SERVER, "reserved", {})
    connected = volumes.connect(SERVICE, reserved.id, {"host": "one"})
    assert connected.connection_info["driver_volume_type"] == "iscsi"
    assert connected.connection_info["data"].items() >= {"target_lun": 1, "auth_password": SECRET, "told": "one"}.items()
    assert "driver_volume_type" not in connected.connection_info["data"]
    assert SECRET not in repr(connected)
    volumes.complete(SERVICE, reserved.id)
    shown = volumes.get(ALICE, made.id)
    assert (shown.status, shown.attachments) == ("in-use", [{"server_id": SERVER, "attachment_id": reserved.id}])
    assert [(a.id, a.status) for a in volumes.attachments(SERVICE, SERVER)] == [(reserved.id, "attached")]
    assert [a.id for a in volumes.attachments(ALICE, SERVER)] == [reserved.id]
    assert volumes.attachments(BOB, SERVER) == []
    for _ in range(2):
        volumes.release(SERVICE, reserved.id)
    assert volumes.attachments(SERVICE, SERVER) == []
    for _ in range(2):
        volumes.delete(ALICE, made.id)
    with pytest.raises(exception.VolumeNotFound):
        volumes.get(ALICE, made.id)


def test_a_reserved_volume_gets_another_image(volumes, cinder):
    volume_id = cinder.add_volume("alice")
    volumes.reserve(SERVICE, volume_id, SERVER)
    volumes.reimage(SERVICE, volume_id, SERVER)
    shown = volumes.get(ALICE, volume_id)
    assert (shown.status, shown.image_metadata) == ("downloading", {"image_id": SERVER})
    with pytest.raises(exception.Conflict, match="but is downloading"):
        volumes.reimage(SERVICE, volume_id, SERVER)


def test_a_reservation_with_a_connector_is_connected(volumes, cinder):
    reserved = volumes.reserve(SERVICE, cinder.add_volume("alice"), SERVER, {"host": "two"})
    assert (reserved.status, reserved.connection_info["data"]["told"]) == ("attaching", "two")


def test_a_volume_says_that_it_is_being_detached(volumes, cinder):
    volume_id = cinder.add_volume("alice")
    with pytest.raises(exception.InvalidVolume, match="status must be in-use, but is available"):
        volumes.begin_detaching(ALICE, volume_id)
    for path, status in [(volumes.roll_detaching, "available")] + 2 * [(volumes.begin_detaching, "detaching")] + \
            2 * [(volumes.roll_detaching, "in-use")]:
        path(SERVICE, volume_id)
        assert volumes.get(ALICE, volume_id).status == status
        if status == "available":
            cinder.volumes[volume_id]["status"] = "in-use"
    with pytest.raises(exception.VolumeNotFound):
        volumes.begin_detaching(BOB, volume_id)


def test_who_asks_and_that_a_service_does(volumes, openstack, cinder):
    volume_id = cinder.add_volume("alice")
    volumes.get(ALICE, volume_id)
    volumes.get(SERVICE, volume_id)
    user, service = (call.headers for call in openstack.calls)
    assert (user["X-Auth-Token"], user["X-Service-Token"][:8]) == ("alice-token", "service-")
    assert service["X-Auth-Token"][:8] == "service-"
    # without it Cinder takes us for a user, who may not delete the attachment of a guest that lives
    assert service["X-Service-Token"] == service["X-Auth-Token"]


def test_what_is_found_by_metadata(volumes, cinder):
    mine = cinder.add_volume("alice", metadata={"k": "1", "x": "y"})
    other = cinder.add_volume("bob", metadata={"k": "1"})
    cinder.add_volume("alice", metadata={"k": "2"})
    for filters in (True, False):
        cinder.filters_metadata = filters
        assert {v.id for v in volumes.find(SERVICE, {"k": "1"})} == {mine, other}
        assert [v.id for v in volumes.find(ALICE, {"k": "1"})] == [mine]
        assert [v.id for v in volumes.find(SERVICE, {"k": "1", "x": "y"})] == [mine]


def test_lists_come_in_pages(volumes, cinder):
    cinder.page = 3
    mine = [cinder.add_volume("alice") for _ in range(8)]
    cinder.add_volume("bob")
    assert [v.id for v in volumes.list_all(ALICE)] == mine


def test_a_snapshot(volumes, cinder):
    volume_id = cinder.add_volume("alice")
    snapshot_id = str(uuid.uuid4())
    cinder.snapshots[snapshot_id] = {"id": snapshot_id, "volume_id": volume_id, "size": 3, "status": "available"}
    assert volumes.get_snapshot(ALICE, snapshot_id).size == 3
    with pytest.raises(exception.SnapshotNotFound):
        volumes.get_snapshot(BOB, snapshot_id)


@pytest.mark.parametrize("name", ["detail", "summary", "..", "../attachments/detail", "x?all_tenants=1", ""])
def test_what_is_no_id_never_becomes_part_of_a_path(volumes, openstack, name):
    for call, error in ((volumes.get, exception.VolumeNotFound), (volumes.get_snapshot, exception.SnapshotNotFound)):
        with pytest.raises(error):
            call(ALICE, name)
    volumes.delete(ALICE, name)
    volumes.delete_snapshot(ALICE, name)
    assert not openstack.calls


def test_what_is_not_there_or_not_ones_own(volumes, cinder):
    mine = cinder.add_volume("alice")
    for call, error in (
            (lambda: volumes.get(BOB, mine), exception.VolumeNotFound),
            (lambda: volumes.reserve(BOB, mine, SERVER), exception.VolumeNotFound),
            (lambda: volumes.connect(SERVICE, SERVER, {"host": "one"}), exception.VolumeAttachmentNotFound),
            (lambda: volumes.complete(SERVICE, SERVER), exception.VolumeAttachmentNotFound)):
        with pytest.raises(error):
            call()
    volumes.delete(BOB, mine)
    assert mine in cinder.volumes


def test_a_volume_in_use_is_a_refusal_in_cinders_words(volumes, cinder):
    taken = cinder.add_volume("alice", status="in-use")
    with pytest.raises(exception.InvalidVolume, match="^Invalid volume: Volume .* the current status is in-use") as caught:
        volumes.reserve(ALICE, taken, SERVER)
    assert caught.value.code == 400
    with pytest.raises(exception.InvalidVolume, match="must be available or error, but is in-use"):
        volumes.delete(ALICE, taken)


@pytest.mark.parametrize(("refusal", "error", "code", "words"), [
    (fault(413, "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'."),
     exception.OverQuota, 403, r"Cinder: .*Maximum number of volumes allowed \(10\)"),
    (fault(403, "Quota exceeded for gigabytes"), exception.OverQuota, 403, "gigabytes"),
    (fault(403, "Policy doesn't allow volume:create to be performed."), exception.Forbidden, 403, "Cinder: Policy"),
    (fault(400, "Invalid input received: Availability zone 'x' is invalid."), exception.InvalidVolume, 400, "zone 'x'"),
    (fault(404, "Volume type with name fast could not be found."), exception.InvalidVolume, 400, "type with name fast"),
    (fault(409, "busy"), exception.Conflict, 409, "Cinder: busy"),
])
def test_refusals_of_a_create(volumes, cinder, refusal, error, code, words):
    cinder.refuse = refusal
    with pytest.raises(error, match=words) as caught:
        volumes.create(ALICE, 1)
    assert caught.value.code == code
    assert type(caught.value) is error


def test_the_life_of_a_snapshot(volumes, cinder):
    volume_id = cinder.add_volume("alice")
    made = volumes.create_snapshot(ALICE, volume_id, "before", "text")
    assert (made.volume_id, made.size, made.status, made.name, made.description) == (volume_id, 1, "creating", "before", "text")
    assert made.created_at == "2026-01-01T00:00:00.000000"
    cinder.page = 1
    second = volumes.create_snapshot(ALICE, volume_id)
    assert volumes.list_snapshots(ALICE) == [made, second]
    assert volumes.list_snapshots(BOB) == []
    volumes.delete_snapshot(BOB, made.id)       # not there for him
    for _ in range(2):
        volumes.delete_snapshot(ALICE, made.id)
    assert volumes.list_snapshots(ALICE) == [second]


def test_snapshots_that_are_refused(volumes, cinder):
    used = cinder.add_volume("alice", status="in-use")
    with pytest.raises(exception.InvalidVolume, match="must be available"):
        volumes.create_snapshot(ALICE, used)
    assert volumes.create_snapshot(ALICE, used, force=True).volume_id == used
    for context, volume_id in ((ALICE, str(uuid.uuid4())), (BOB, used)):
        with pytest.raises(exception.VolumeNotFound):
            volumes.create_snapshot(context, volume_id)


def test_a_snapshot_that_is_gone_when_its_volume_is_made(volumes, cinder):
    cinder.refuse = fault(404, "Snapshot s could not be found.")
    with pytest.raises(exception.SnapshotNotFound):
        volumes.create(ALICE, 1, snapshot_id="s")


def test_no_cinder_is_told_by_name(volumes, openstack):
    openstack.stop()
    with pytest.raises(exception.ServiceUnavailable, match="Cinder is unavailable"):
        volumes.get(ALICE, SERVER)


def test_how_a_volume_is_encrypted(volumes, cinder):
    said = {"provider": "luks", "encryption_key_id": str(uuid.uuid4()), "cipher": "aes-xts-plain64", "key_size": 256,
            "control_location": "front-end"}
    volume = cinder.add_volume("alice", encrypted=True, encryption=said)
    attachment = volumes.reserve(SERVICE, volume, SERVER, {"host": "one"})
    assert attachment.connection_info["data"]["encrypted"]
    assert volumes.encryption(SERVICE, volume) == said
    assert volumes.encryption(SERVICE, cinder.add_volume("alice")) == {}
    with pytest.raises(exception.VolumeNotFound):
        volumes.encryption(SERVICE, str(uuid.uuid4()))
