"""The disks of guests as images in a Ceph pool: ``<uuid>_disk``, ``_disk.eph0``, ``_disk.swap``, ``_disk.rescue``, as in Nova.

All hosts can reach all images. The record on each image names its owner, and only the owner removes it; no host starts a guest
with an image of another host. A move to another host copies nothing: it makes a snapshot for a revert, and the record changes
when the guest has settled. Console log, config drive and the directory's own record stay on the guest's host.
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import durable, exception, units
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt.driver import Checker, DiskCopy, Fetcher
from nova_lite.virt.libvirt import images, older_marks, quiesce
from nova_lite.virt.libvirt.config import Auth, DiskPool
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.disks import MAKE_SWAP, DiskMaker, sparse
from nova_lite.virt.libvirt.files import EPHEMERALS, POOLED, SWAP, GuestDirectory, image_name
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.ownership import Standing, rule
from nova_lite.virt.libvirt.rbd import Pool

LOG = log.getLogger(__name__)
RBD = "rbd"                     # of [libvirt] images_type
RECORD = "nova_lite.guest"      # the note on an image that is its record
_COPY = "nova_lite_copy"        # the snapshot of which an image is made
_ROOT = "disk"
_MADE_BY_MOVES = (*EPHEMERALS, SWAP)    # what a resize may have added; never the root disk


def disks_of(conf: cfg.ConfigOpts, host: str) -> DiskMaker:
    """The disks as ``[libvirt] images_type`` says."""
    return RbdDisks(conf, host) if conf.libvirt.images_type == RBD else DiskMaker(conf)


class RbdDisks(DiskMaker):
    """See ``DiskMaker`` and ``DiskStore``. The cache of images stays on the host; from there they are written into the pool."""

    def __init__(self, conf: cfg.ConfigOpts, host: str) -> None:
        super().__init__(conf)
        options = conf.libvirt
        self.disk_format = "raw"        # in the pool
        self._host, self._user, self._secret = host, options.rbd_user, options.rbd_secret_uuid
        self._pool = Pool(options.images_rbd_pool, options.images_rbd_ceph_conf, options.rbd_user)
        self._last_space: tuple[int, int] | None = None
        self._older: set[str] = set()       # images that were seen with the notes of an older version

    # the pool -----------------------------------------------------------------------------------------------------------
    @functools.cached_property
    def _cluster(self) -> tuple[str, list[str]]:
        return self._pool.monitors()

    @property
    def identity(self) -> str:      # type: ignore[override]
        """Of cluster and pool."""
        return f"{RBD}:{self._cluster[0]}/{self._pool.name}"

    def place(self) -> DiskPool:
        """See DiskStore. Raises ConfigError for a missing program or file on this host, VirtDriverError when Ceph does not
        answer."""
        if bool(self._user) != bool(self._secret):
            raise exception.ConfigError(reason="[libvirt] rbd_user and rbd_secret_uuid go together: the id by which Ceph knows "
                                               "this host, and libvirt's secret with its key")
        for program in ("rbd", "ceph", "qemu-img"):
            if shutil.which(program) is None:
                raise exception.ConfigError(reason=f"[libvirt] images_type = rbd needs the program {program} (Debian: "
                                                   "ceph-common, qemu-utils, and qemu-block-extra for QEMU)")
        self._pool.images("?")       # that there is such a pool
        auth = Auth(self._user, "ceph", self._secret) if self._user else None
        return DiskPool(self._pool.name, tuple(split_address(one) for one in self._cluster[1]), auth)

    def space(self) -> tuple[int, int, int]:
        """The room of the pool; claims of guests are not counted. While Ceph is away, the last value is returned: the reports
        of the host must not wait for Ceph."""
        try:
            self._last_space = self._pool.space()
        except exception.VirtDriverError as error:
            if self._last_space is None:
                raise
            LOG.warning("the room in the pool is not known: %s", error)
        total, free = self._last_space
        return total, free, free

    def names(self, uuid: str) -> list[str]:
        """See DiskStore."""
        return [name for name in self._images(uuid) if name in POOLED]

    def format_of(self, files: GuestDirectory) -> str:
        """See DiskMaker: whatever it was when the guest's disks were files."""
        return self.disk_format

    def note_formats(self, host: str, connection: Connection) -> None:
        """Files that may be there are those of before ``images_type`` was changed."""

    # making disks -------------------------------------------------------------------------------------------------------
    def make(self, instance: Instance, files: GuestDirectory, fetch: Fetcher) -> None:
        """See DiskMaker. An image that another host has made of a server that never ran is removed; another image of another
        host raises VirtDriverError."""
        for name, image, record in self._owned(instance.uuid):
            if self._may_take(record):      # an evacuation: only Ceph shows whether the old host's guest has ended
                self._pool.wait_until_closed(image)
            if record.host == self._host or self._may_take(record) or name.endswith(durable.PART):
                continue
            if instance.launched_at is not None or not record.host:
                raise self._not_mine(image, record)
            LOG.warning("removing image %s, which a build on host %s has left", image, record.host,
                        extra={"instance_uuid": instance.uuid})
            self._pool.remove(image)
        super().make(instance, files, fetch)

    def fit(self, instance: Instance, files: GuestDirectory, fetch: Fetcher) -> None:
        """See DiskMaker. The images may still be another host's: there a move that fails finds them as they were."""
        there = self.names(instance.uuid)
        if _ROOT not in there and not instance.is_volume_backed:
            raise exception.VirtDriverError(what="Moving a guest", reason=f"{image_name(files.disk)} is not in {self.identity}")
        if _ROOT in there and instance.flavor.root_gb:
            self._grow(image_name(files.disk), instance.flavor.root_gb * units.GiB)
        for path, size in files.sized_ephemerals(instance):
            if path.name in there:
                self._grow(image_name(path), size * units.GiB)
        if SWAP in there and instance.swap_mb:
            self._fit_swap(files.swap, instance.swap_mb * units.MiB)
        super().make(instance, files, fetch)

    def _grow(self, image: str, size: int) -> None:
        if self._pool.size(image) < size:
            self._pool.resize(image, size)

    def _fit_swap(self, path: pathlib.Path, size: int) -> None:
        """At no time does its header promise more than there is."""
        image, before = image_name(path), self._pool.size(image_name(path))
        if before < size:
            self._pool.resize(image, size)
        with self._formatted(path, size, *MAKE_SWAP) as part:
            self._pool.write(image, part, "raw", is_empty=False)
        if before > size:
            self._pool.resize(image, size)

    def remove_rescue(self, files: GuestDirectory) -> None:
        """See DiskMaker."""
        super().remove_rescue(files)
        if self._is_there(files.rescue_disk):
            self._pool.remove(image_name(files.rescue_disk))

    def facts(self, instance: Instance, files: GuestDirectory) -> list[dict[str, Any]]:
        """See DiskMaker."""
        return [{"name": f"{files.path.name}/{name}", "size": size, "used": size, "format": RBD}
                for name in self.names(files.path.name)
                for size in [self._pool.size(_image(files.path.name, name))]]

    @contextlib.contextmanager
    def copied(self, instance: Instance, guest: Guest, files: GuestDirectory, check: Checker) -> Iterator[DiskCopy]:
        """See DiskMaker. Copied from a snapshot, so that the guest may go on; as qcow2, which is smaller to upload."""
        image = image_name(files.disk)
        self.drop_copy(guest, files)
        try:
            files.snapshot.touch(mode=0o600)
            with quiesce.quiet(guest, files, instance):
                self._pool.make_snapshot(image, _COPY)
            self._pool.read(image, _COPY, files.snapshot, "qcow2", check)
            self._pool.remove_snapshot(image, _COPY)
            yield DiskCopy(str(files.snapshot), "qcow2")
        finally:
            self.drop_copy(guest, files)

    def drop_copy(self, guest: Guest, files: GuestDirectory) -> None:
        """See DiskMaker."""
        quiesce.thaw(guest, files)
        if self._is_there(files.disk):
            self._pool.remove_snapshot(image_name(files.disk), _COPY)
        files.snapshot.unlink(missing_ok=True)

    def _most(self) -> int:
        return self._pool.space()[0]

    def _is_there(self, path: pathlib.Path) -> bool:
        return path.name in self._images(path.parent.name)

    def _make_formatted(self, path: pathlib.Path, size: int, *program: str, passphrase: str = "") -> None:
        with self._formatted(path, size, *program) as part:
            self._import(path, size, part, "raw")

    @contextlib.contextmanager
    def _formatted(self, path: pathlib.Path, size: int, *program: str) -> Iterator[pathlib.Path]:
        """A file for a moment, almost all of it a hole."""
        part = path.with_name(path.name + durable.PART)
        try:
            part.unlink(missing_ok=True)
            part.touch(mode=0o600)
            sparse(part, size)
            images.run(*program, part)
            yield part
        finally:
            part.unlink(missing_ok=True)

    def _from_base(self, image: ImageMeta, base: pathlib.Path, path: pathlib.Path, size: int, disk_format: str,
                   passphrase: str = "") -> None:
        if path.name not in POOLED and self._is_there(path):
            self._pool.remove(image_name(path))     # a rescue disk of another image
        self._import(path, size, base, image.disk_format)

    def _import(self, path: pathlib.Path, size: int, source: pathlib.Path, disk_format: str) -> None:
        """It gets its name when it is whole, and its owner before anything else."""
        name = image_name(path)
        part = name + durable.PART
        if part in self._pool.images(part):
            self._pool.remove(part)
        self._pool.create(part, size)
        self._write(part, Record(path.parent.name, self._host, State.HERE))
        self._pool.write(part, source, disk_format, is_empty=True)
        self._pool.rename(part, name)

    # whose they are -----------------------------------------------------------------------------------------------------
    def remove(self, uuid: str, keep: Sequence[str] = (), server: Standing = Standing()) -> None:
        """See DiskStore."""
        for name, image, record in self._owned(uuid):
            if record.host == self._host:
                if name not in keep and rule(record, self._host).removes(server):
                    self._pool.remove(image)
            elif record.state is State.UNKNOWN and name.endswith(durable.PART):
                self._pool.remove(image)
            else:
                LOG.log(logging.INFO if record.host else logging.WARNING, "image %s of pool %s stays: it is %s", image,
                        self._pool.name, _whose(record), extra={"instance_uuid": uuid})

    def own(self, uuid: str) -> None:
        """See DiskStore."""
        self._change(uuid, lambda record: record.host != self._host or record.state is State.ASIDE, host=self._host,
                     state=State.HERE)

    def claim(self, uuid: str) -> None:
        """See DiskStore."""
        self._check_no_files(uuid)
        for _name, image, record in self._owned(uuid):
            if self._may_take(record):
                self._pool.wait_until_closed(image)
                self._write(image, record, host=self._host, state=State.HERE)
            elif record.host != self._host:
                raise self._not_mine(image, record)

    def take(self, uuid: str) -> None:
        """See DiskStore. The removal of an image that a process still has open fails."""
        self._change(uuid, self._may_take, host=self._host, state=State.HERE)

    def release_ownership(self, uuid: str) -> None:
        """See DiskStore."""
        self._change(uuid, lambda record: record.host == self._host, host="", state=State.LEAVING)

    def give(self, uuid: str, host: str) -> None:
        """See DiskStore."""
        self._change(uuid, lambda record: record.host == self._host or self._may_take(record), host=host,
                     state=State.HERE if host else State.LEAVING)

    def adopt(self, uuid: str) -> None:
        """See DiskStore."""
        for name, image, record in self._owned(uuid):
            is_made_here = record.host == self._host and record.state is not State.ADOPTED
            if not is_made_here and not name.endswith(durable.PART):
                self._write(image, record, host="", state=State.ADOPTED)

    def adopted(self, uuid: str) -> None:
        """See DiskStore."""
        self._change(uuid, self._may_take, host=self._host, state=State.ADOPTED)

    def _may_take(self, record: Record) -> bool:
        return rule(record, self._host).takes

    def _change(self, uuid: str, which: Callable[[Record], bool], **changes: Any) -> None:
        for _name, image, record in self._owned(uuid):
            if which(record):
                self._write(image, record, **changes)

    # moves --------------------------------------------------------------------------------------------------------------
    def set_aside(self, uuid: str, move: str) -> None:
        """See DiskStore. A second run makes the snapshots again: in between only the guest can have changed the disks."""
        self.claim(uuid)
        for name in self.names(uuid):
            image = _image(uuid, name)
            self._pool.make_snapshot(image, _rollback_snapshot(move))
            self._write(image, self._record(image), host=self._host, state=State.ASIDE, move=move, source=self._host)

    def restore(self, uuid: str, move: str) -> None:
        """See DiskStore."""
        self.claim(uuid)
        for name in self.names(uuid):
            image = _image(uuid, name)
            if _rollback_snapshot(move) in self._pool.snapshots(image):
                self._pool.wait_until_closed(image)
                self._pool.roll_back(image, _rollback_snapshot(move))
            elif name in _MADE_BY_MOVES:
                self._pool.remove(image)

    def forget(self, uuid: str, move: str) -> None:
        """See DiskStore."""
        for name in self.names(uuid):
            image = _image(uuid, name)
            self._pool.remove_snapshot(image, _rollback_snapshot(move))
            record = self._record(image)
            if record.move == move:
                state = State.HERE if record.state is State.ASIDE else record.state
                self._write(image, record, state=state, move="", source="")

    def give_back(self, uuid: str, move: str) -> None:
        """See DiskStore."""
        for name, image, record in self._owned(uuid):
            if record.host != self._host:
                continue
            if _rollback_snapshot(move) in self._pool.snapshots(image):
                self._write(image, record, host=record.source, state=State.ASIDE)
            elif name.removesuffix(durable.PART) in _MADE_BY_MOVES:
                self._pool.remove(image)

    def abandon(self, uuid: str) -> None:
        """See DiskStore."""
        for name, image, record in self._owned(uuid):
            if record.host == self._host and record.source not in ("", self._host):
                self._write(image, record, host=record.source, state=State.ASIDE)
            elif record.host == self._host and not record.source and self._has_way_back(image):
                # another host forgot an older move while this one's source was written down, and took that away
                self._write(image, record, host="", state=State.ASIDE)
            elif record.host == self._host or record.state is State.UNKNOWN and name.endswith(durable.PART):
                self._pool.remove(image)

    def _has_way_back(self, image: str) -> bool:
        return any(name.startswith(_rollback_snapshot("")) for name in self._pool.snapshots(image))

    # --------------------------------------------------------------------------------------------------------------------
    def _images(self, uuid: str) -> list[str]:
        """Of one guest, by the names that they would have as files."""
        return [name.removeprefix(f"{uuid}_") for name in self._pool.images(f"{uuid}_disk")]

    def _owned(self, uuid: str) -> Iterator[tuple[str, str, Record]]:
        """(name as a file, name of the image, record) of all of a guest."""
        for name in self._images(uuid):
            image = _image(uuid, name)
            yield name, image, self._record(image)

    def _record(self, image: str) -> Record:
        """Raises VirtDriverError for one that this version cannot read."""
        notes, server = self._pool.notes(image), image.partition("_")[0]
        if RECORD not in notes:
            if not notes.keys().isdisjoint(older_marks.NOTES):
                self._older.add(image)
            return older_marks.of_notes(server, notes)
        try:
            return Record.from_json(notes[RECORD], server)
        except ValueError as error:
            raise exception.VirtDriverError(what=f"Reading whose image {image} is", reason=error) from error

    def _write(self, image: str, record: Record, **changes: Any) -> None:
        self._pool.write_note(image, RECORD, dataclasses.replace(record, **changes).to_json())
        if image in self._older:
            for note in older_marks.NOTES:
                self._pool.write_note(image, note, "")
            self._older.discard(image)

    def _not_mine(self, image: str, record: Record) -> exception.VirtDriverError:
        reason = f"image {image} of {self.identity} is {_whose(record)}"
        return exception.VirtDriverError(what=f"Using a disk on {self._host}", reason=reason)

    def _check_no_files(self, uuid: str) -> None:
        """Raise VirtDriverError for a guest of before ``images_type`` was changed."""
        if any((self._root / uuid / name).exists() for name in POOLED):
            raise exception.VirtDriverError(what=f"Using a disk on {self._host}", reason="its disks are files, but [libvirt] "
                                                                                         "images_type of this host is rbd")


def split_address(address: str) -> tuple[str, str]:
    """(host, port) of a monitor: 10.0.0.1:6789, [fd00::1]:3300; the host without brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port.partition("/")[0]


def _image(uuid: str, name: str) -> str:
    return f"{uuid}_{name}"


def _rollback_snapshot(move: str) -> str:
    """The snapshot that a move can be undone by."""
    return f"nova_lite_{move}"


def _whose(record: Record) -> str:
    if record.state is State.UNKNOWN:
        return "of host unknown"
    return f"of host {record.host}" if record.host else "nobody's: a move or an evacuation has not ended"
