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
ASIDE = "_resize"       # after the uuid: the guest moves, and this is what it can come back to
GONE = ".gone"         # after the name of a directory whose removal has begun: no guest has it
BEGUN = ".begun"       # after the name of one that is not made yet, to be renamed in a moment: no guest has it either
_BEGUN_SECONDS = 3600   # after these nobody is at it any more, also where the clocks of hosts differ
EPHEMERALS = tuple(f"disk.eph{number}" for number in range(MAX_LOCAL))
SWAP = "disk.swap"
POOLED = frozenset(("disk", *EPHEMERALS, SWAP))      # the disks that may be in a pool instead of the directory
DISK_FORMATS = ("qcow2", "raw")
RECORD = "guest.json"


class UnreadableRecord(OSError):
    """A newer version, or somebody by hand, has written it. What is asked about one guest fails; that of others goes on."""


class GuestDirectory:
    """``<state_path>/instances/<uuid>``: all that one guest has on disk."""

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
        self.tpm = self.path / "tpm.tar"            # what its TPM remembers, while libvirt does not know the guest
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
        """Make it anew with this record in it, in place of what has its name. It gets its name last: whoever dies on the way,
        there is no directory that does not say whose it is."""
        concurrency.native(self.remove)
        root = self.path.parent
        root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        # of a name that nobody has had: who removes what a killed run has left has perhaps just looked at that
        begun = pathlib.Path(tempfile.mkdtemp(BEGUN, f"{self.path.name}.", root))
        begun.chmod(_MODE)
        _write(begun / RECORD, record)
        durable.put_in_place(begun, self.path)

    def remove(self, keep: Sequence[pathlib.Path] = ()) -> None:
        """Remove it with all that is in it; gone already is no error. ``keep`` are files that stay, with the directory and its
        record, and the guest is here again then. What a killed process left of it no guest is ever given: the directory loses
        its name first."""
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
        """An unknown one where there is none. Raises UnreadableRecord for one that this version cannot read."""
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
        """The format in which the guest's root disk was made; empty: nobody has written it down."""
        return self.record.disk_format

    def note_format(self, disk_format: str) -> None:
        """Write it down, before there is a disk. It is never read from the disk, whose bytes are the guest's. Raises OSError
        for what is no format of disks."""
        if disk_format not in DISK_FORMATS:
            raise OSError(f"disks in {self.path} cannot have the format {disk_format!r}")
        self.note(disk_format=disk_format)

    @property
    def base(self) -> str | None:
        """The name of the base image that the guest's root disk was made on; empty: it was made on none. None: nobody has
        written it down."""
        return self.record.base

    def note_base(self, base: str) -> None:
        """Write it down, before there is a disk. The header of the disk is the guest's word, once it has taken over QEMU."""
        self.note(base=base)

    def is_of(self, host: str) -> bool:
        """Whether the directory is this host's; what says nothing is nobody's."""
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
    """Remove what killed processes have left of directories whose removal had begun, or that they had begun to make. Those may
    also be another process's that is just making them, on this host or another one: they stay for an hour."""
    for path in root.glob("*" + GONE):
        discard(path)
    for path in root.glob("*" + BEGUN):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - _BEGUN_SECONDS:
                discard(path)


def discard(path: pathlib.Path) -> None:
    """With all that is in it. Others may be at the same: what is gone already is no error."""
    def failed(_function: object, _path: object, info: tuple[type[BaseException], BaseException, object]) -> None:
        if not isinstance(info[1], FileNotFoundError):
            raise info[1]

    shutil.rmtree(path, onerror=failed)
