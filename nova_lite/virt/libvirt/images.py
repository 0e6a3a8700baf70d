"""Looking at image files before anything opens them: a crafted image may name other files of the host as its backing file.

The header is read here and in ``image_formats``, in Python. Only what passes is shown to ``qemu-img``, under limits of memory
and time.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from oslo_log import log

from nova_lite import exception
from nova_lite.runtime import concurrency
from nova_lite.virt.libvirt import image_formats
from nova_lite.virt.libvirt.files import BASES, DISK_FORMATS, EPHEMERALS, SWAP, GuestDirectory, UnreadableRecord

LOG = log.getLogger(__name__)

QCOW2_MAGIC = b"QFI\xfb"
EXTERNAL_DATA = 1 << 2
_LUKS = 2                   # method of encryption
_LONGEST_NAME = 1023        # of a backing file, by the format's rules
_LIMITS = ("prlimit", "--as=1073741824", "--cpu=30", "--")
OVERLAY = "qcow2"     # the format of disks that may have a base image
_OVERLAYS = ("disk", "disk.rescue")     # in the format that is written down; others are raw unless they are encrypted
_ENCRYPTED = (*_OVERLAYS, *EPHEMERALS, SWAP)     # config drives never are
_LOOKS = 100


@dataclass(frozen=True)
class Header:
    """The header of a qcow2 file."""

    version: int
    backing_file: bool
    virtual_size: int
    external_data: bool
    backing_name: str = ""
    luks: bool = False      # the data is encrypted
    encrypted: bool = False     # in whichever way


def run(*arguments: str | os.PathLike[str]) -> str:
    """Run a program and return its output; OSError with the end of its error output when it fails."""
    try:
        return subprocess.run(arguments, check=True, capture_output=True, text=True,  # noqa: S603
                              stdin=subprocess.DEVNULL).stdout
    except subprocess.CalledProcessError as error:
        name = next(str(a) for a in arguments if a not in _LIMITS)
        raise OSError(f"{name} ended with {error.returncode}: {error.stderr.strip()[-500:]}") from error


def qcow2_header(path: str | os.PathLike[str]) -> Header | None:
    """The header of a qcow2 file; None for anything else."""
    with open(path, "rb") as stream:
        data = stream.read(80)
        name = _backing_name(stream, data)
    if len(data) < 72 or not data.startswith(QCOW2_MAGIC):
        return None
    version, backing_offset = struct.unpack_from(">IQ", data, 4)
    virtual_size, = struct.unpack_from(">Q", data, 24)
    features = struct.unpack_from(">Q", data, 72)[0] if version >= 3 and len(data) >= 80 else 0
    method, = struct.unpack_from(">I", data, 32)
    return Header(version, backing_offset != 0, virtual_size, bool(features & EXTERNAL_DATA), name, method == _LUKS,
                  method != 0)


def _backing_name(stream: IO[bytes], header: bytes) -> str:
    offset, length = struct.unpack_from(">QI", header.ljust(20), 8)
    if not header.startswith(QCOW2_MAGIC) or not offset or length > _LONGEST_NAME:
        return ""
    stream.seek(min(offset, 1 << 30))
    return stream.read(length).decode(errors="replace")


def inspect(path: pathlib.Path, image_id: str, claimed: str) -> int:
    """Check an image file against the format that its record claims; its virtual size in bytes.

    Raises ImageUnacceptable for another format, a format that is not supported, a backing file or an external data file.
    """
    def refuse(reason: str | Exception) -> exception.ImageUnacceptable:
        return exception.ImageUnacceptable(image_id=image_id, reason=reason)

    if claimed not in DISK_FORMATS:
        raise refuse(f"disk format {claimed} is not supported; this host takes {' and '.join(DISK_FORMATS)}")
    if claimed == "raw":
        pretended = image_formats.pretended(path)
        if pretended:
            raise refuse(f"it claims to be raw, but its data is {pretended}")
    else:
        header = qcow2_header(path)
        if header is None or header.version not in (2, 3):
            raise refuse("it claims to be qcow2, but its data is not")
        if header.backing_file:
            raise refuse("it has a backing file")
        if header.external_data:
            raise refuse("its data is in another file")
        if header.encrypted:
            raise refuse("it is encrypted, and its key is not known")
    second = concurrency.native(image_formats.refusal, path, claimed)
    if second:
        raise refuse(second)
    try:
        found = info(path, claimed)
    except OSError as error:
        raise refuse(error) from error
    if found.get("format") != claimed or found.get("backing-filename"):
        raise refuse("qemu-img sees another format than its header says")
    return int(found["virtual-size"])


def info(path: pathlib.Path, disk_format: str) -> dict[str, Any]:
    """qemu-img's description of a file of this format, under limits of memory and time. Another process may have the file open.
    Raises OSError."""
    found: dict[str, Any] = json.loads(run(*_LIMITS, "qemu-img", "info", "-U", "--output=json", "-f", disk_format, path))
    return found


def base_of(disk: pathlib.Path, disk_format: str, made_on: str | None) -> pathlib.Path | None:
    """The base image of a guest's overlay. Call it before any program opens the disk in this format. OSError for a disk whose
    base is not among this host's base images, or whose data is in another file: its guest may control QEMU, or another host may
    have written it, and the disk must not open files of this host. ``made_on``: the recorded base image
    (``GuestDirectory.base``; None: not recorded); DriverRefusal for another one."""
    header = qcow2_header(disk) if disk_format == OVERLAY else None
    if header is None:
        return None
    if header.external_data:
        raise OSError(f"{disk} says that its data is in another file")
    refusal = image_formats.overlay_refusal(disk)
    if refusal:
        raise OSError(f"{disk} is not opened: {refusal}")
    if not header.backing_file:
        return None
    base, bases = pathlib.Path(header.backing_name), disk.parent.parent / BASES
    if "\0" in header.backing_name or not base.is_absolute() or (found := base.resolve()).parent != bases.resolve():
        raise OSError(f"{disk} stands on {base}, which is not a base image of this host")
    if made_on not in (None, found.name):
        LOG.error("%s is based on %s, but was made on %s: its guest may have taken over QEMU", disk, base, made_on or "none")
        raise exception.DriverRefusal(what="Opening a disk", reason="it names another base image than the one it was made on")
    return base


def grow(path: pathlib.Path, disk_format: str, size: int) -> None:
    """Make a disk that is smaller as large as ``size`` bytes. Raises OSError."""
    if int(info(path, disk_format)["virtual-size"]) < size:
        run("qemu-img", "resize", "-q", "-f", disk_format, path, str(size))


def option(value: object) -> str:
    """A value inside a list of options as QEMU's programs take it: a comma would begin the next one."""
    return str(value).replace(",", ",,")


@dataclass(frozen=True)
class Disk:
    """A guest's file: ``size`` is the size for the guest, ``used`` the space on this host, in bytes. ``base`` is the base image
    of an overlay; an empty path: there is none."""

    format: str
    size: int
    used: int
    base: pathlib.Path


def disk(path: pathlib.Path, disk_format: str, is_encrypted: bool = False) -> Disk:
    """A file of a guest whose root disk was made in ``disk_format``; a guest with encrypted disks has no raw one. Raises
    OSError. The format in the file itself is ignored: the content of a raw disk belongs to the guest, and may imitate any
    format."""
    kind = OVERLAY if is_encrypted else disk_format if path.name in _OVERLAYS else "raw"
    header, status = qcow2_header(path) if kind == OVERLAY else None, path.stat()
    base = pathlib.Path(header.backing_name if header else "")
    return Disk(kind, header.virtual_size if header else status.st_size, status.st_blocks * 512, base)


def backing_files(root: pathlib.Path) -> set[pathlib.Path]:
    """The base images of the guests' root disks below ``root``. Raises OSError when guests are made and removed all the time.
    Raw disks are skipped: their first bytes are written by the guest."""
    for _ in range(_LOOKS):
        names = set(os.listdir(root))
        with contextlib.suppress(FileNotFoundError):        # a directory may have got another name: read all of them again
            found = {name for path in _guest_files(root, names) if path.name.removesuffix(".part") in _OVERLAYS
                     and _noted_format(GuestDirectory(root, path.parent.name)) != "raw"
                     for header in [qcow2_header(path)] if header is not None and (name := header.backing_name)}
            if names.issuperset(os.listdir(root)):
                return {pathlib.Path(name) for name in found}
    raise OSError(f"the directories in {root} change all the time")


def overcommitted(root: pathlib.Path, images_type: str) -> int:
    """Bytes that the guests' disks below ``root`` may still grow by; ``images_type``: the format where none is written down."""
    growth = 0
    for name in os.listdir(root):
        with contextlib.suppress(FileNotFoundError):        # it is going away, or gets another name
            paths = list(_guest_files(root, [name]))
            disk_format = _noted_format(GuestDirectory(root, name)) or images_type
            # by the header of the root disk, which a guest cannot write where the disk is not raw
            is_encrypted = disk_format == OVERLAY and any(
                (header := qcow2_header(path)) is not None and header.luks for path in paths if path.name == "disk")
            for path in paths:
                found = disk(path, disk_format, is_encrypted and path.name in _ENCRYPTED)
                growth += max(0, found.size - found.used)
    return growth


def _noted_format(files: GuestDirectory) -> str:
    """Empty, too, where the record cannot be read: such a guest does not start, and holds up nothing."""
    try:
        return files.disk_format
    except UnreadableRecord as error:
        LOG.error("The format of a disk is not recorded: %s", error)
        return ""


def _guest_files(root: pathlib.Path, names: Iterable[str]) -> Iterator[pathlib.Path]:
    """The disks in these guests' directories. Raises FileNotFoundError for a disk that is gone."""
    for name in names:
        with contextlib.suppress(NotADirectoryError), os.scandir(root / name) as entries:
            yield from [root / name / e.name for e in entries if e.name.startswith("disk") and e.is_file(follow_symlinks=False)]
