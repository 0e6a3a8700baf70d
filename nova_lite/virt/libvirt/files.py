"""Where the files of guests are, and writing one so that it is whole or not there."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from nova_lite import durable
from nova_lite.objects.block_device import MAX_LOCAL
from nova_lite.objects.instance import Instance
from nova_lite.runtime import concurrency
from nova_lite.virt.libvirt.guest_record import Record, State

BASES = "_base"        # the directory of base images, among those of guests
_MODE = 0o711           # of directories: others may pass through (QEMU may run as another user), but see no names
BASE_MODE = 0o440       # many guests read a base image: QEMU owns it, by libvirt, and does not write to it
BINDING = "binding.json"
ASIDE = "_resize"       # after the uuid: set aside by a move, for a revert
GONE = ".gone"         # after the name of a directory whose removal has begun: no guest has it
BEGUN = ".begun"       # after the name of a directory that is being made, and is renamed when it is complete: no guest has it
_BEGUN_SECONDS = 3600   # after this time no process works on the directory, also where the clocks of hosts differ
EPHEMERALS = tuple(f"disk.eph{number}" for number in range(MAX_LOCAL))
SWAP = "disk.swap"
POOLED = frozenset(("disk", *EPHEMERALS, SWAP))      # the disks that may be in a pool instead of the directory
DISK_FORMATS = ("qcow2", "raw")
RECORD = "guest.json"


class UnreadableRecord(OSError):
    """A newer version, or a person, has written the record. Operations on this guest fail; those on other guests work."""


class GuestDirectory:
    """``<state_path>/instances/<uuid>``: all files of one guest."""

    def __init__(self, root: pathlib.Path, uuid: str) -> None:
        self.path = root / uuid
        self.disk = self.path / "disk"
        self.ephemerals = tuple(self.path / name for name in EPHEMERALS)    # as many as a guest can have
        self.swap = self.path / SWAP
        self.config_drive = self.path / "disk.config"
        self.rescue_disk = self.path / "disk.rescue"
        self.rescue_config_drive = self.path / "disk.config.rescue"
        self.snapshot = self.path / "snapshot.part"
        self.frozen = self.path / "frozen"          # see quiesce.py
        self.nvram = self.path / "nvram.fd"         # what UEFI remembers
        self.tpm = self.path / "tpm.tar"            # the state of its TPM, while libvirt does not have the guest
        self.binding = self.path / BINDING          # see bindings.py
        self.console_log = self.path / "console.log"
        self.record_file = self.path / RECORD

    @property
    def movable(self) -> tuple[pathlib.Path, ...]:
        """What a guest takes with it to another host; some of it may not be there."""
        return self.disk, *self.ephemerals, self.swap, self.config_drive, self.nvram, self.tpm

    def sized_ephemerals(self, instance: Instance) -> list[tuple[pathlib.Path, int]]:
        """The ephemeral disks that the server has, with their GiB."""
        return list(zip(self.ephemerals, instance.ephemeral_disks, strict=False))

    def make(self) -> None:
        """Create it."""
        self.path.mkdir(mode=_MODE, parents=True, exist_ok=True)

    def begin(self, record: Record) -> None:
        """Make the directory again with this record in it, in place of an older one. The directory gets its name last: after a
        kill there is no directory without a record."""
        concurrency.native(self.remove)
        root = self.path.parent
        root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        # a new name: another process may just be removing the directory of a killed run
        begun = pathlib.Path(tempfile.mkdtemp(BEGUN, f"{self.path.name}.", root))
        begun.chmod(_MODE)
        _write(begun / RECORD, record)
        durable.put_in_place(begun, self.path)

    def remove(self, keep: Sequence[pathlib.Path] = ()) -> None:
        """Remove the directory with its content; a directory that does not exist is no error. ``keep`` are files that stay,
        with the directory and its record; the record then says that the guest is here. The directory loses its name first, so
        no later guest gets what a killed removal has left."""
        if not any(path.exists() for path in keep):
            gone = self.path.with_name(self.path.name + GONE)
            discard(gone)
            with contextlib.suppress(FileNotFoundError):
                os.rename(self.path, gone)
            discard(gone)
            return
        for path in self.path.iterdir():
            if path not in (*keep, self.record_file):
                path.unlink(missing_ok=True)
        record = self.record
        self.note(state=State.HERE if record.state is State.REMOVING else record.state, post_copy=False)

    @property
    def record(self) -> Record:
        """The record; an unknown one where there is none. Raises UnreadableRecord for a record that this version cannot
        read."""
        server = self.path.name.partition(".")[0].removesuffix(ASIDE)       # also while it is begun or gone
        try:
            return Record.from_json(self.record_file.read_text(), server)
        except (FileNotFoundError, NotADirectoryError):
            return Record(server)
        except ValueError as error:
            raise UnreadableRecord(f"{self.record_file}: {error}") from error

    def note(self, **changes: Any) -> None:
        """Write the record with these changes of its fields."""
        _write(self.record_file, dataclasses.replace(self.record, **changes))

    @property
    def disk_format(self) -> str:
        """The format in which the guest's root disk was made; empty: not recorded."""
        return self.record.disk_format

    def note_format(self, disk_format: str) -> None:
        """Record the format before the disk is made. It is never read from the disk, whose content belongs to the guest. Raises
        OSError for an unknown format."""
        if disk_format not in DISK_FORMATS:
            raise OSError(f"disks in {self.path} cannot have the format {disk_format!r}")
        self.note(disk_format=disk_format)

    @property
    def base(self) -> str | None:
        """The name of the base image of the guest's root disk; empty: it was made without one. None: not recorded."""
        return self.record.base

    def note_base(self, base: str) -> None:
        """Record the base before the disk is made. The header of the disk may be written by the guest, once it controls
        QEMU."""
        self.note(base=base)

    def is_of(self, host: str) -> bool:
        """Whether the directory belongs to this host; a directory without a record has no owner."""
        return self.record.host == host


def _write(path: pathlib.Path, record: Record) -> None:
    """Whole, or not at all. On shared storage, another host may write the record at the same time."""
    with durable.written_whole(path, unique=True) as part:
        part.write_text(record.to_json())


def image_name(path: pathlib.Path) -> str:
    """A disk in a pool, by the path that it would have as a file: Nova's names."""
    return f"{path.parent.name}_{path.name}"


def instances_root(conf: cfg.ConfigOpts) -> pathlib.Path:
    """The directory of all guests of this host."""
    return pathlib.Path(conf.state_path).absolute() / "instances"


def close_to_others(root: pathlib.Path) -> None:
    """What older versions have left open to all users of the host."""
    for path in root.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat().st_mode
            if stat.S_ISREG(found) and found & 0o007:
                path.chmod(BASE_MODE if path.parent.name == BASES else stat.S_IMODE(found) & ~0o007)


def finish_removals(root: pathlib.Path) -> None:
    """Remove the rest of directories whose removal, or creation, was interrupted. Another process, on this host or another one,
    may just be making such a directory, so they are kept for an hour."""
    for path in root.glob("*" + GONE):
        discard(path)
    for path in root.glob("*" + BEGUN):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - _BEGUN_SECONDS:
                discard(path)


def discard(path: pathlib.Path) -> None:
    """Remove a directory with its content. Another process may do the same: what does not exist is no error."""
    def failed(_function: object, _path: object, info: tuple[type[BaseException], BaseException, object]) -> None:
        if not isinstance(info[1], FileNotFoundError):
            raise info[1]

    shutil.rmtree(path, onerror=failed)
