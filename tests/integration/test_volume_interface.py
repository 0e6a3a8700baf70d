"""One set of tests for both sides of the volume interface: files of this machine and the real Cinder."""
from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.image import base as image_base
from nova_lite.objects.volume import Volume
from nova_lite.volume.base import VolumeAPI, load
from tests.support.neighbours import Neighbours
from tests.support.process import wait_for

CONNECTOR = {"host": "node-a", "ip": "127.0.0.1", "initiator": "iqn.2010-10.org.openstack:nova-lite-node-a", "multipath": False,
             "os_type": "linux", "platform": "x86_64", "do_local_attach": False}
SETTLING = ("creating", "downloading", "deleting", "attaching", "detaching", "error_deleting")


@dataclasses.dataclass
class Side:
    """A driver, two users of different projects, and the service user of the hosts."""

    volumes: VolumeAPI
    alice: RequestContext
    bob: RequestContext
    service: RequestContext
    image_id: str
    types: dict[str, str | None]
    snapshot: Callable[[Volume], str]
    made: list[str] = dataclasses.field(default_factory=list)
    servers: list[str] = dataclasses.field(default_factory=list)

    def new(self, context: RequestContext | None = None, **values: Any) -> Volume:
        """A volume that came to its end, good or bad."""
        made = self.volumes.create(context or self.alice, **{"size": 1, "volume_type": self.types["plain"], **values})
        self.made.append(made.id)
        return self.settled(made.id)

    def settled(self, volume_id: str) -> Volume:
        return wait_for("the volume", lambda: (v := self.volumes.get(self.service, volume_id)).status not in SETTLING and v, 60)

    def server(self) -> str:
        self.servers.append(str(uuid.uuid4()))
        return self.servers[-1]

    def gone(self, volume_id: str) -> bool:
        try:
            self.volumes.get(self.service, volume_id)
        except exception.VolumeNotFound:
            return True
        return False

    def clean_up(self) -> None:
        for server in self.servers:
            for attachment in self.volumes.attachments(self.service, server):
                self.volumes.release(self.service, attachment.id)
        for volume_id in reversed(self.made):
            if not self.gone(volume_id):
                self.settled(volume_id)
                self.volumes.delete(self.service, volume_id)
        for volume_id in self.made:
            wait_for("the delete", lambda v=volume_id: self.gone(v), 60)


def _local(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Side]:
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))
    alice, bob = (RequestContext(project_id=name, user_id=name, roles=["member"], auth_token=name, overwrite=False)
                  for name in ("alice", "bob"))
    images, volumes = image_base.load(conf), load(conf)
    image = images.create(alice, {"name": "tiny", "disk_format": "raw"})
    images.upload(alice, image.id, [bytes(4096)])
    side = Side(volumes, alice, bob, admin_context(), image.id, {"plain": None, "shared": "multiattach"},
                lambda volume: volumes.create_snapshot(alice, volume.id).id)    # type: ignore[attr-defined]
    yield side
    for snapshot in volumes.list_snapshots(alice):      # type: ignore[attr-defined]
        volumes.delete_snapshot(alice, snapshot.id)     # type: ignore[attr-defined]
    side.clean_up()


def _cinder(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Side]:
    neighbours: Neighbours = request.getfixturevalue("neighbours")
    file = tmp_path / "nova-lite.conf"
    file.write_text("[service_user]\n" + "\n".join(
        f"{k.removeprefix('service_user__')} = {v}" for k, v in neighbours.options().items() if k.startswith("service_user__")))
    conf = nova_lite.conf.load([], config_files=[str(file)], volume__driver="cinder")
    users = [RequestContext(project_id=neighbours.project_id(name), user_id=name, auth_token=neighbours.token(name),
                            overwrite=False) for name in ("demo", "alt_demo")]
    snapshots = []

    def snapshot(volume: Volume) -> str:
        made = neighbours.call("POST", "cinder", "/snapshots", json={"snapshot": {"volume_id": volume.id}})["snapshot"]["id"]
        snapshots.append(made)
        wait_for("the snapshot", lambda: neighbours.call("GET", "cinder", f"/snapshots/{made}")["snapshot"]["status"]
                 == "available", 60)
        return str(made)

    side = Side(load(conf), *users, admin_context(), neighbours.image_id(), {"plain": "dataless", "shared": "multiattach"},
                snapshot)
    yield side
    for one in snapshots:
        neighbours.call("DELETE", "cinder", f"/snapshots/{one}")
        wait_for("the delete", lambda s=one: s not in [
            s["id"] for s in neighbours.call("GET", "cinder", "/snapshots")["snapshots"]], 60)
    side.clean_up()


@pytest.fixture(params=["local", "cinder"])
def side(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Side]:
    yield from {"local": _local, "cinder": _cinder}[request.param](request, tmp_path)


def test_a_blank_volume(side: Side) -> None:
    made = side.new(name="data", description="mine", metadata={"a": "b"})
    assert (made.status, made.size, made.name, made.description, made.metadata, made.bootable, made.multiattach, made.encrypted,
            made.attachments, made.project_id) == (
        "available", 1, "data", "mine", {"a": "b"}, False, False, False, [], side.alice.project_id)
    assert made.id in [v.id for v in side.volumes.list_all(side.alice)]
    side.volumes.delete(side.alice, made.id)
    wait_for("the delete", lambda: side.gone(made.id), 60)
    side.volumes.delete(side.alice, made.id)        # gone already is no error
    assert made.id not in [v.id for v in side.volumes.list_all(side.alice)]


def test_a_volume_from_an_image_knows_it(side: Side) -> None:
    made = side.new(image_id=side.image_id)
    assert (made.status, made.bootable) == ("available", True)
    assert made.image_metadata["image_id"] == side.image_id
    assert {"image_name", "disk_format", "container_format", "min_ram", "min_disk", "size"} <= set(made.image_metadata)


def test_a_volume_from_a_snapshot(side: Side) -> None:
    source = side.new()
    snapshot_id = side.snapshot(source)
    snapshot = side.volumes.get_snapshot(side.alice, snapshot_id)
    assert (snapshot.volume_id, snapshot.size, snapshot.status) == (source.id, 1, "available")
    made = side.new(snapshot_id=snapshot_id, size=2)
    assert (made.status, made.size, made.snapshot_id) == ("available", 2, snapshot_id)
    with pytest.raises(exception.SnapshotNotFound):
        side.volumes.get_snapshot(side.bob, snapshot_id)


def test_the_life_of_an_attachment(side: Side) -> None:
    volume, server = side.new(), side.server()
    reserved = side.volumes.reserve(side.alice, volume.id, server)
    assert (reserved.volume_id, reserved.server_id, reserved.status, reserved.connection_info) == (
        volume.id, server, "reserved", {})
    assert side.volumes.get(side.alice, volume.id).status == "reserved"
    connected = side.volumes.connect(side.service, reserved.id, CONNECTOR)
    assert connected.id == reserved.id
    assert connected.connection_info["driver_volume_type"] in ("local", "iscsi")
    again = side.volumes.connect(side.service, reserved.id, CONNECTOR)
    assert again.connection_info == connected.connection_info
    assert side.volumes.get(side.alice, volume.id).status == "attaching"
    for _ in range(2):
        side.volumes.complete(side.service, reserved.id)
    shown = side.volumes.get(side.alice, volume.id)
    assert (shown.status, shown.attachments) == ("in-use", [{"server_id": server, "attachment_id": reserved.id}])
    assert [(a.id, a.volume_id, a.server_id, a.status) for a in side.volumes.attachments(side.service, server)] == [
        (reserved.id, volume.id, server, "attached")]
    for _ in range(2):
        side.volumes.release(side.service, reserved.id)
    assert side.settled(volume.id).status == "available"
    assert side.volumes.attachments(side.service, server) == []


def test_a_server_that_is_rebuilt_has_its_volume_written_anew(side: Side) -> None:
    volume, server = side.new(image_id=side.image_id), side.server()
    old = side.volumes.reserve(side.alice, volume.id, server)
    side.volumes.connect(side.service, old.id, CONNECTOR)
    side.volumes.complete(side.service, old.id)
    new = side.volumes.reserve(side.service, volume.id, server)       # before the old one goes: nobody gets in between
    side.volumes.release(side.service, old.id)
    assert side.settled(volume.id).status == "reserved"
    side.volumes.reimage(side.service, volume.id, side.image_id)
    shown = side.settled(volume.id)
    assert (shown.status, shown.image_metadata["image_id"]) == ("reserved", side.image_id)
    side.volumes.connect(side.service, new.id, CONNECTOR)
    side.volumes.complete(side.service, new.id)
    assert [(a.id, a.status) for a in side.volumes.attachments(side.service, server)] == [(new.id, "attached")]


def test_a_reservation_is_given_back(side: Side) -> None:
    volume, server = side.new(), side.server()
    reserved = side.volumes.reserve(side.alice, volume.id, server)
    side.volumes.release(side.alice, reserved.id)
    assert side.settled(volume.id).status == "available"


def test_a_volume_that_is_taken_is_nobody_elses(side: Side) -> None:
    volume, server = side.new(), side.server()
    reserved = side.volumes.reserve(side.alice, volume.id, server)
    for step in (lambda: None, lambda: side.volumes.connect(side.service, reserved.id, CONNECTOR),
                 lambda: side.volumes.complete(side.service, reserved.id)):
        step()
        with pytest.raises(exception.InvalidVolume, match="current status is") as caught:
            side.volumes.reserve(side.alice, volume.id, side.server())
        assert caught.value.code == 400
        with pytest.raises(exception.InvalidVolume):
            side.volumes.delete(side.alice, volume.id)


def test_a_shared_volume_is_in_use_until_the_last_server_lets_go(side: Side) -> None:
    volume, one, two = side.new(volume_type=side.types["shared"]), side.server(), side.server()
    assert volume.multiattach
    attachments = []
    for server in (one, two):
        attachments.append(side.volumes.reserve(side.alice, volume.id, server))
        side.volumes.connect(side.service, attachments[-1].id, CONNECTOR)
        side.volumes.complete(side.service, attachments[-1].id)
    shown = side.volumes.get(side.alice, volume.id)
    assert {a["server_id"] for a in shown.attachments} == {one, two}
    side.volumes.release(side.service, attachments[0].id)
    assert side.settled(volume.id).status == "in-use"
    side.volumes.release(side.service, attachments[1].id)
    assert side.settled(volume.id).status == "available"


def test_what_carries_our_marks_is_found_whoever_owns_it(side: Side) -> None:
    mark = str(uuid.uuid4())
    mine, other = side.new(metadata={"m": mark, "n": "1"}), side.new(side.bob, metadata={"m": mark, "n": "2"})
    side.new(metadata={"m": "other"})
    assert {v.id for v in side.volumes.find(side.service, {"m": mark})} == {mine.id, other.id}
    assert [v.id for v in side.volumes.find(side.service, {"m": mark, "n": "2"})] == [other.id]
    assert side.volumes.find(side.service, {"m": mark, "n": "3"}) == []


def test_one_project_never_sees_the_volume_of_another(side: Side) -> None:
    volume, server = side.new(), side.server()
    assert volume.id not in [v.id for v in side.volumes.list_all(side.bob)]
    for call in (lambda: side.volumes.get(side.bob, volume.id), lambda: side.volumes.reserve(side.bob, volume.id, server)):
        with pytest.raises(exception.VolumeNotFound):
            call()
    side.volumes.delete(side.bob, volume.id)
    assert side.settled(volume.id).status == "available"
    reserved = side.volumes.reserve(side.alice, volume.id, server)
    with pytest.raises((exception.VolumeAttachmentNotFound, exception.Forbidden)):
        side.volumes.connect(side.bob, reserved.id, CONNECTOR)
    assert side.volumes.attachments(side.bob, server) == []
    assert len(side.volumes.attachments(side.service, server)) == 1


def test_what_is_not_there(side: Side) -> None:
    nothing = str(uuid.uuid4())
    for call, error in (
            (lambda: side.volumes.get(side.alice, nothing), exception.VolumeNotFound),
            (lambda: side.volumes.get_snapshot(side.alice, nothing), exception.SnapshotNotFound),
            (lambda: side.volumes.reserve(side.alice, nothing, side.server()), exception.VolumeNotFound),
            (lambda: side.volumes.connect(side.service, nothing, CONNECTOR), exception.VolumeAttachmentNotFound),
            (lambda: side.volumes.complete(side.service, nothing), exception.VolumeAttachmentNotFound)):
        with pytest.raises(error):
            call()
    side.volumes.delete(side.service, nothing)
    side.volumes.release(side.service, nothing)


def test_a_volume_is_not_made_without_a_size(side: Side) -> None:
    with pytest.raises(exception.InvalidVolume):
        side.volumes.create(side.alice, 0)


@pytest.mark.parametrize("side", ["cinder"], indirect=True)
@pytest.mark.parametrize("failed", [True, False])
def test_a_migration_that_ends_when_its_server_is_gone(side: Side, neighbours: Neighbours, failed: bool) -> None:
    """Cinder keeps the status of volumes that migrate, whoever lets go of them, and at the end restores what was before."""
    old, new = side.new().id, side.new().id
    server = side.server()
    for volume_id in (old, new):
        reserved = side.volumes.reserve(side.service, volume_id, server)
        side.volumes.connect(side.service, reserved.id, CONNECTOR)
        side.volumes.complete(side.service, reserved.id)
    # there is no second backend to which it could migrate anything
    marks = (f"UPDATE volumes SET migration_status='migrating', previous_status='in-use' WHERE id='{old}'; "
             f"UPDATE volumes SET migration_status='target:{old}' WHERE id='{new}'")
    subprocess.run(["mariadb", "--no-defaults", "-uroot", f"--socket={neighbours.directory}/run/mysql.sock", "cinder", "-e",
                    marks], check=True)
    for attachment in side.volumes.attachments(side.service, server):
        side.volumes.release(side.service, attachment.id)
    for volume_id in (old, new):
        with pytest.raises(exception.InvalidVolume):
            side.volumes.delete(side.service, volume_id)
    for _ in range(2):
        assert side.volumes.complete_migration(side.service, old, new, failed) == old
        wait_for("the end of the other", lambda: side.gone(new), 60)
    assert (found := side.volumes.get(side.service, old)).status == "in-use"
    assert (found.attachments, found.migration_status) == ([], "error" if failed else "success")
    side.volumes.make_available(side.service, old)
    assert side.volumes.get(side.service, old).status == "available"
    again = side.volumes.reserve(side.service, old, server)
    side.volumes.connect(side.service, again.id, CONNECTOR)
    side.volumes.complete(side.service, again.id)
    side.volumes.make_available(side.service, old)
    assert side.volumes.get(side.service, old).status == "in-use"
    side.volumes.make_available(side.service, new)      # it is gone
