"""Disks of guests: base images fetched once per host, qcow2 overlays on them (or raw copies), ephemeral and swap disks."""
from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import durable, exception, units
from nova_lite.image import digests
from nova_lite.keymgr import KeyManager
from nova_lite.objects.block_device import FORMATS
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.runtime import concurrency
from nova_lite.virt import device_names
from nova_lite.virt.driver import Checker, DiskCopy, Fetcher
from nova_lite.virt.libvirt import disk_formats, encrypted_images, encryption, images, snapshot
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.disk_store import DiskStore
from nova_lite.virt.libvirt.files import BASE_MODE, BASES, GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)
_MKFS_OPTIONS = ("-q", "-F", "-L")      # and a label
MAKE_SWAP = ("mkswap",)
SECTOR = 512


class DiskMaker(DiskStore):
    """Makes the disks of the guests of one host. A disk is there whole, or not at all. They are files: see ``RbdDisks``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.disk_format = conf.libvirt.images_type
        self._root = instances_root(conf)
        self._base = self._root / BASES
        self._keep_unused = conf.libvirt.keep_unused_images
        self._keys = KeyManager(conf)
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._looked_at: dict[tuple[str, str], tuple[int, int]] = {}       # id, format -> its file's ctime (ns), virtual size
        self._checked: dict[tuple[str, str], tuple[int, ...]] = {}          # id, digest -> the file that has it: _content

    def make(self, instance: Instance, files: GuestDirectory, fetch: Fetcher) -> None:
        """Root (unless it is a volume), ephemeral disks and swap disk, as far as they are not there. BuildAborted, OSError."""
        self._note_format(files)
        passphrase = self._passphrase(instance, files)
        from_volume = any(device.is_volume and device.is_root for device in instance.block_devices)
        if not from_volume and not self._is_there(files.disk):
            self._make_root(instance, files, fetch, passphrase)
        for number, (path, size) in enumerate(files.sized_ephemerals(instance)):
            if not self._is_there(path):
                label = device_names.ephemeral(number)
                said = device_names.local_devices(instance).get(label)
                known = said is not None and said.guest_format in FORMATS
                maker = f"mkfs.{said.guest_format if said is not None and known else FORMATS[0]}"
                self._make_formatted(path, size * units.GiB, maker, *_MKFS_OPTIONS, label, passphrase=passphrase)
        if instance.swap_mb and not self._is_there(files.swap):
            self._make_formatted(files.swap, instance.swap_mb * units.MiB, *MAKE_SWAP, passphrase=passphrase)

    def make_like(self, instance: Instance, files: GuestDirectory, wanted: list[dict[str, Any]], fetch: Fetcher) -> None:
        """Disks that are those of a guest on another host (its ``facts``), but for what they hold. Where the image of the root
        disk is gone it becomes ``whole`` in ``wanted``: all of it is to be copied. Raises as ``make``."""
        paths = {disk["name"]: files.path / pathlib.Path(disk["name"]).name for disk in wanted}

        root_format = next((disk["format"] for disk in wanted if paths[disk["name"]] == files.disk), "")
        if root_format and not files.disk_format:
            files.note_format(root_format)

        def make() -> None:
            for disk in wanted:
                if disk.get("whole"):
                    if paths[disk["name"]] == files.disk:
                        files.note_base("")
                    self._make_empty(paths[disk["name"]], disk["format"], disk["size"])
            self.make(instance, files, fetch)

        try:
            make()
        except exception.ImageNotFound as error:
            # the disk of the source is based on an image that the Image service has deleted since
            LOG.info("%s: all of its disk is copied", error, extra={"instance_uuid": instance.uuid})
            for disk in wanted:
                disk["whole"] = disk.get("whole") or paths[disk["name"]] == files.disk
            make()
        for disk in wanted:
            # of its present size: a disk may have grown since it was made
            images.grow(paths[disk["name"]], disk["format"], disk["size"])

    @property
    def encrypts(self) -> bool:
        """Whether the disks of new guests can be encrypted on this host: those in qcow2 can, with a key manager."""
        return self.disk_format == images.OVERLAY and self._keys.is_set_up

    def format_of(self, files: GuestDirectory) -> str:
        """In which the root disk of this guest was made. Without any so far: in which this host makes it."""
        return files.disk_format or self.disk_format

    def _note_format(self, files: GuestDirectory) -> None:
        if not files.disk_format:
            files.note_format(self.format_of(files))

    def note_formats(self, host: str, connection: Connection) -> None:
        """When the daemon starts. Raises VirtDriverError or OSError."""
        disk_formats.note_all(self._root, host, connection, self.disk_format)

    def _passphrase(self, instance: Instance, files: GuestDirectory) -> str:
        """That of the server's disks; empty: they are plain. Raises BuildFailed where they cannot be had here, and what
        ``encryption.of_disks`` and ``KeyManager.passphrase`` raise."""
        encrypted = encryption.of_disks(instance)
        if encrypted is None:
            return ""
        if self.format_of(files) != images.OVERLAY:
            raise exception.BuildFailed(instance_id=instance.uuid, reason=encryption.NOT_HERE)
        return self._keys.passphrase(encrypted.key_id)

    def fit(self, instance: Instance, files: GuestDirectory, fetch: Fetcher) -> None:
        """Give the disks the sizes of the server's flavor; none becomes smaller except swap, which is made again. A missing
        disk is made. Raises as ``make``."""
        passphrase = self._passphrase(instance, files)

        def grow(path: pathlib.Path, disk_format: str, gigabytes: int) -> None:
            if passphrase:
                encrypted_images.grow(path, gigabytes * units.GiB, passphrase)
            else:
                images.grow(path, disk_format, gigabytes * units.GiB)

        self.check(instance, files)
        if files.disk.exists() and instance.flavor.root_gb:
            grow(files.disk, self.format_of(files), instance.flavor.root_gb)
        for path, size in files.sized_ephemerals(instance):
            if path.exists():
                grow(path, "raw", size)
        if files.swap.exists():
            swap = images.disk(files.swap, self.format_of(files), bool(passphrase))
            if swap.size != instance.swap_mb * units.MiB:
                files.swap.unlink()
        self.make(instance, files, fetch)

    def check(self, instance: Instance, files: GuestDirectory) -> None:
        """Before QEMU opens the disks. Raises as :func:`images.base_of`, and OSError for an encrypted disk without base image
        that has one, or is in another format. The base image of a guest that an older version has left is noted."""
        if files.disk.exists():
            base = images.base_of(files.disk, self.format_of(files), files.base)
            if files.base is None:
                files.note_base(base.name if base is not None else "")
        if encryption.of_disks(instance) is not None:
            for path in (*files.ephemerals, files.swap):
                if path.exists():
                    encrypted_images.check_alone(path)

    @staticmethod
    def _make_empty(path: pathlib.Path, disk_format: str, size: int) -> None:
        """An empty disk (qcow2: an overlay without data), which gets all its bytes from elsewhere. OSError."""
        with durable.written_whole(path) as part:
            images.run("qemu-img", "create", "-q", "-f", disk_format, part, str(size))

    def make_rescue(self, instance: Instance, image: ImageMeta, files: GuestDirectory, fetch: Fetcher) -> None:
        """A root disk for a rescue, as large as the image, encrypted where the disks of the server are. An existing one stays,
        if it was made of this image. Raises ImageUnacceptable, OSError or the errors of ``fetch``."""
        self._note_format(files)
        path, disk_format = files.rescue_disk, self.format_of(files)
        made_of = rescue_image(path)
        if not self._is_there(path) or not made_of.exists() or made_of.read_text() != image.id:
            base, virtual_size = self._base_image(image, fetch)
            made_of.unlink(missing_ok=True)
            self._from_base(image, base, path, self._bounded(image, virtual_size), disk_format,
                            self._passphrase(instance, files))
            with durable.written_whole(made_of) as part:
                part.write_text(image.id)
        images.base_of(path, disk_format, image.id)

    def remove_rescue(self, files: GuestDirectory) -> None:
        """What a rescue has made."""
        for path in (files.rescue_config_drive, rescue_image(files.rescue_disk), files.rescue_disk):
            path.unlink(missing_ok=True)

    def copied(self, instance: Instance, guest: Guest, files: GuestDirectory,
               check: Checker) -> contextlib.AbstractContextManager[DiskCopy]:
        """See ``snapshot.copied_disk``. NotImplementedByDriver: of an encrypted disk there is no plain copy."""
        disk_format = self.format_of(files)
        header = images.qcow2_header(files.disk) if disk_format == images.OVERLAY else None
        if header is not None and header.luks:
            raise exception.NotImplementedByDriver(what="a copy of an encrypted disk")
        return snapshot.copied_disk(instance, guest, files, disk_format, check)

    def drop_copy(self, guest: Guest, files: GuestDirectory) -> None:
        """What a killed process has left of ``copied``. Raises VirtDriverError or OSError."""
        snapshot.drop_copy(guest, files)

    def facts(self, instance: Instance, files: GuestDirectory) -> list[dict[str, Any]]:
        """``SourceFacts.disks``."""
        return [self._facts(path, instance, self.format_of(files))
                for path in (files.disk, *files.ephemerals, files.swap) if path.exists()]

    @staticmethod
    def _facts(path: pathlib.Path, instance: Instance, disk_format: str) -> dict[str, Any]:
        found = images.disk(path, disk_format, encryption.of_disks(instance) is not None)
        # the destination makes an overlay of the server's image. The disk of an unshelved server has another base
        is_whole = found.format == images.OVERLAY and (instance.image is None or found.base.name != instance.image.id)
        used = found.used + (found.base.stat().st_blocks * 512 if is_whole and found.base.name else 0)
        return {"name": f"{path.parent.name}/{path.name}", "size": found.size, "used": used, "format": found.format,
                "whole": is_whole}

    def space(self) -> tuple[int, int, int]:
        """(bytes in all, bytes free, bytes free when all disks have grown to their size)."""
        total, free = free_space(self._root)
        return total, free, free - images.overcommitted(self._root, self.disk_format)

    def cache(self, image: ImageMeta, fetch: Fetcher) -> None:
        """Have an image here before a guest asks for it. Raises ImageUnacceptable or what ``fetch`` raises."""
        self._base_image(image, fetch)

    def _make_root(self, instance: Instance, files: GuestDirectory, fetch: Fetcher, passphrase: str) -> None:
        image = instance.image
        if image is None or not image.id:
            raise exception.BuildAborted(instance_id=instance.uuid, reason="the server has no image")
        base, virtual_size = self._base_image(image, fetch)
        size = instance.flavor.root_gb * units.GiB or self._bounded(image, virtual_size)
        if size < virtual_size:
            raise exception.FlavorDiskSmallerThanImage(flavor_size=size, image_size=virtual_size)
        disk_format = self.format_of(files)
        files.note_base(base.name if disk_format == images.OVERLAY else "")
        self._from_base(image, base, files.disk, size, disk_format, passphrase)

    def _bounded(self, image: ImageMeta, virtual_size: int) -> int:
        """The size of an image where no flavor gives one: a file of a few bytes may claim an exabyte, and would fill the host.
        Raises ImageUnacceptable."""
        most = self._most()
        if virtual_size > most:
            claimed, there = virtual_size // units.GiB, most // units.GiB
            reason = f"it claims to be a disk of {claimed} GiB, and this host has {there} GiB in all"
            raise exception.ImageUnacceptable(image_id=image.id, reason=reason)
        return virtual_size

    def _most(self) -> int:
        """Bytes that a disk can have at all."""
        return free_space(self._base)[0]

    def _is_there(self, path: pathlib.Path) -> bool:
        return path.exists()

    def _make_formatted(self, path: pathlib.Path, size: int, *program: str, passphrase: str = "") -> None:
        """A disk of ``size`` bytes as ``program`` formats it."""
        with durable.written_whole(path) as part:
            if not passphrase:
                sparse(part, size)
                images.run(*program, part)
                return
            with _empty_file(part.with_suffix(".plain"), size) as plain:
                images.run(*program, plain)
                encrypted_images.create(part, size, passphrase)
                encrypted_images.fill(part, passphrase, plain)

    def rebase(self, instance: Instance, files: GuestDirectory, disk: pathlib.Path, base: pathlib.Path,
               base_format: str) -> None:
        """Change the base of a root disk from another host to this host's copy of the base image. Raises OSError, or the error
        of its passphrase."""
        passphrase = self._passphrase(instance, files)
        if passphrase:
            encrypted_images.rebase(disk, passphrase, base, base_format)
        else:
            images.run("qemu-img", "rebase", "-u", "-f", images.OVERLAY, "-F", base_format, "-b", base, disk)

    def _from_base(self, image: ImageMeta, base: pathlib.Path, path: pathlib.Path, size: int, disk_format: str,
                   passphrase: str = "") -> None:
        with durable.written_whole(path) as part:
            if passphrase:
                encrypted_images.create(part, size, passphrase, base, image.disk_format)
            elif disk_format == "raw":
                images.run("qemu-img", "convert", "-f", image.disk_format, "-O", "raw", base, part)
                images.run("qemu-img", "resize", "-q", "-f", "raw", part, str(size))
            else:
                images.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", image.disk_format, "-b", base, part, str(size))

    def _base_image(self, image: ImageMeta, fetch: Fetcher) -> tuple[pathlib.Path, int]:
        """The image's file on this host, fetched when it is not there, and its virtual size."""
        if not image.id.replace("-", "").isalnum():
            raise exception.ImageUnacceptable(image_id=image.id, reason="its id cannot be a file name")
        path = self._base / image.id
        with self._locked(image.id):
            if not self._is_whole(path, image):
                LOG.info("Fetching image %s", image.id)
                began = time.monotonic()
                with durable.written_whole(path) as part:
                    fetch(image.id, str(part))
                    LOG.info("image %s was fetched in %.1f s", image.id, time.monotonic() - began)
                    images.inspect(part, image.id, image.disk_format)
                    os.chmod(part, BASE_MODE)
                self._checked[image.id, image.checksum or ""] = _content(path)      # by the process that fetched it
            virtual_size = self._virtual_size(path, image)
            _touch(path)
            self._looked_at[image.id, image.disk_format] = path.stat().st_ctime_ns, virtual_size
            return path, virtual_size

    def _is_whole(self, path: pathlib.Path, image: ImageMeta) -> bool:
        """Whether the cached file exists and is the image, by its digest. The digest is computed when this process first reads
        the file, and again when the file is another one or was changed. Raises ImageUnacceptable, OSError."""
        if not path.exists():
            return False
        known, content = (image.id, image.checksum or ""), _content(path)
        if self._checked.get(known) != content:
            if not concurrency.native(digests.fits, image, path):
                LOG.error("%s is not the image of this name any more: it is fetched again", path)
                return False
            self._checked[known] = content
        return True

    def _virtual_size(self, path: pathlib.Path, image: ImageMeta) -> int:
        """Of a base image, in bytes. A file that has not changed is not read again. Raises ImageUnacceptable."""
        touched, virtual_size = self._looked_at.get((image.id, image.disk_format), (0, 0))
        return virtual_size if touched == path.stat().st_ctime_ns else images.inspect(path, image.id, image.disk_format)

    def base_for_move(self, move: str, disk_format: str, image: ImageMeta | None, fetch: Fetcher,
                      pull: Callable[[pathlib.Path], None]) -> tuple[pathlib.Path, str]:
        """The base image of a guest from another host, and its format: ``image``, the server's own, as this host has it or the
        Image service delivers it; else the file that ``pull`` gets from the other host, in ``disk_format``. That file belongs
        to this move only, unless a digest identifies the image. Raises ImageUnacceptable and the errors of ``pull``."""
        if image is not None:
            try:
                return self._base_image(image, fetch)[0], image.disk_format
            except exception.ImageNotFound:
                LOG.info("Image %s is gone from the Image service: the other host has a copy", image.id)
        known = image if image is not None and image.checksum else None
        name = known.id if known is not None else f"moved-{move}"       # no image has such an id
        disk_format = image.disk_format if image is not None else disk_format
        path = self._base / name
        with self._locked(name):
            if not (path.exists() if known is None else self._is_whole(path, known)):
                with durable.written_whole(path) as part:
                    pull(part)
                    if image is not None:
                        _check_copy(part, image)
                    images.inspect(part, name, disk_format)
                    os.chmod(part, BASE_MODE)
            _touch(path)
        return path, disk_format

    def tidy(self) -> None:
        """Remove base images that no guest uses and that none was made from for ``[libvirt] keep_unused_images`` seconds."""
        if not self._keep_unused:
            return
        before = time.time() - self._keep_unused
        old = [p for p in self._base.glob("*") if not p.name.startswith(".") and _is_older(p, before)]
        if not old:
            return
        used = images.backing_files(self._base.parent)
        # by name, as state_path may have had another one, and by what a link of another name leads to
        names, found = {base.name for base in used}, {identity for base in used if (identity := _identity(base))}
        for path in old:
            image_id = path.name.removesuffix(durable.PART)
            with self._locked(image_id):
                if path.name not in names and _identity(path) not in found and _is_older(path, before):
                    LOG.info("Base image %s was not used for %s s: removed", path.name, self._keep_unused)
                    path.unlink()
                    self._lock_file(image_id).unlink()
                    with self._guard:       # who waits for either lock sees that the file is another one
                        self._locks.pop(image_id, None)

    @contextlib.contextmanager
    def _locked(self, image_id: str) -> Iterator[None]:
        """One thread at a time per image: threads use a lock, so that waiting holds no native thread; processes use a lock
        file, which is removed with the image. A process that has waited for a removed lock file begins again."""
        self._base.mkdir(mode=0o711, parents=True, exist_ok=True)
        path, is_ours = self._lock_file(image_id), False
        while not is_ours:
            with self._guard:
                lock = self._locks.setdefault(image_id, threading.Lock())
            with lock, open(path, "w") as lock_file:
                concurrency.native(fcntl.flock, lock_file, fcntl.LOCK_EX)
                is_ours = _is_named(lock_file.fileno(), path)
                if is_ours:
                    yield

    def _lock_file(self, image_id: str) -> pathlib.Path:
        return self._base / f".{image_id}.lock"


def rescue_image(path: pathlib.Path) -> pathlib.Path:
    """The file beside a rescue disk that names the image of which it was made."""
    return path.with_name(path.name + ".image")


def _is_older(path: pathlib.Path, then: float) -> bool:
    """Whether it was neither written nor used since. False for what is gone."""
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        return max(status.st_atime, status.st_mtime) < then
    return False


def _touch(path: pathlib.Path) -> None:
    """Note that a base image is used now: see tidy. Its time of writing does not change: hosts with a common cache recognise
    the file by it."""
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def _content(path: pathlib.Path) -> tuple[int, ...]:
    """Another one when the file is replaced or written to. Without ctime, which changes with each guest that starts from it."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _check_copy(part: pathlib.Path, image: ImageMeta) -> None:
    """Raise ImageUnacceptable for a copy from the cache of another host, in whole sectors, that differs from its record."""
    if image.size and 0 < part.stat().st_size - image.size < SECTOR:
        os.truncate(part, image.size)
    if not concurrency.native(digests.fits, image, part):
        raise exception.ImageUnacceptable(image_id=image.id, reason="the copy of the other host does not match its checksum")


@contextlib.contextmanager
def _empty_file(path: pathlib.Path, size: int) -> Iterator[pathlib.Path]:
    """A temporary file; no guest has used what a killed process leaves of it."""
    try:
        sparse(path, size)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _identity(path: pathlib.Path) -> tuple[int, int] | None:
    """The identity of a file; None for one that cannot be read."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:      # a guest may have written the name: see images.backing_files
        LOG.debug("%s cannot be read: %s", path, error)
        return None
    return status.st_dev, status.st_ino


def _is_named(descriptor: int, path: pathlib.Path) -> bool:
    """Whether an open file is the one of this name. Opened for that: on NFS, names may be remembered for a while."""
    with contextlib.suppress(FileNotFoundError), open(path) as named:
        return os.path.sameopenfile(descriptor, named.fileno())
    return False


def sparse(path: pathlib.Path, size: int) -> None:
    """A file of ``size`` bytes, all of them a hole."""
    with open(path, "wb") as stream:
        os.truncate(stream.fileno(), size)


def free_space(path: pathlib.Path) -> tuple[int, int]:
    """(bytes in all, bytes free) of the file system that holds ``path``."""
    usage = shutil.disk_usage(path)
    return usage.total, usage.free


def takes_direct_io(directory: pathlib.Path) -> bool:
    """Whether the file system has O_DIRECT, which cache mode ``none`` needs."""
    probe = directory / f".direct-{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True
