"""The data of volumes in files: raw and sparse, complete or absent. The process that makes a file holds a lock on its ``.part``
until the end. So a file that is being made can be told from one whose process died: :meth:`DataFile.progress`.
"""
from __future__ import annotations

import enum
import fcntl
import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import IO

from nova_lite import durable, exception, units
from nova_lite.virt.libvirt import images

_IMAGE = ".image"       # after the name of what is being made: an image that it is made of
Builder = Callable[[pathlib.Path], None]
"""Fills the file at the path, which exists and is empty."""


class Progress(enum.Enum):
    """The state of a file that a process began to make."""

    WHOLE = "whole"
    IN_WORK = "in work"
    LOST = "lost"


class DataFile:
    """The data at ``path``, which is there whole or not at all."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._part = path.with_name(path.name + ".part")
        self._lock: IO[bytes] | None = None

    def begin(self) -> None:
        """Claim the file, before its record is written."""
        self.path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._lock = open(self._part, "xb")     # noqa: SIM115  held until finish
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.chmod(self._part, 0o600)

    def begin_again(self) -> None:
        """Claim the making of other data, which take the place of those that are there; a dead maker's claim is void."""
        if self.progress() is Progress.LOST:
            self._forget_part()
        try:
            self.begin()
        except FileExistsError as error:
            raise exception.InvalidVolume(reason=f"{self.path.name} is being written already") from error

    def build(self, builder: Builder) -> None:
        """Make it, and give it its name. On an error nothing stays behind but the claim."""
        builder(self._part)
        durable.put_in_place(self._part, self.path)

    def finish(self) -> None:
        """Release the claim, after the record has the result."""
        self._part.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()

    def progress(self) -> Progress:
        """The progress of the file, whichever process began it."""
        try:
            with open(self._part, "rb") as part:
                fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Progress.IN_WORK
        except FileNotFoundError:
            return Progress.WHOLE if self.path.exists() else Progress.LOST
        return Progress.LOST

    def remove(self) -> None:
        """Data and what a dead maker left."""
        self.path.unlink(missing_ok=True)
        self._forget_part()

    def _forget_part(self) -> None:
        """The claim goes last: what is beside it is found by it."""
        _beside(self._part).unlink(missing_ok=True)
        self._part.unlink(missing_ok=True)


def blank(size: int) -> Builder:
    """A sparse file of ``size`` GiB."""
    return lambda path: os.truncate(path, size * units.GiB)


def copy_of(source: pathlib.Path, size: int) -> Builder:
    """The data of another file, ``size`` GiB in the end; shares its blocks where the file system can."""
    def build(path: pathlib.Path) -> None:
        _run("cp", "--reflink=auto", "--sparse=always", str(source), str(path))
        os.truncate(path, size * units.GiB)

    return build


def from_image(image_id: str, disk_format: str, size: int, download: Callable[[str], None]) -> Builder:
    """The contents of an image, which ``download`` writes to a path. Raises ImageUnacceptable, InvalidVolume or OSError."""
    def build(path: pathlib.Path) -> None:
        fetched = _beside(path)
        os.close(os.open(fetched, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))     # it may be the copy of a guest's disk
        try:
            download(str(fetched))
            virtual_size = images.inspect(fetched, image_id, disk_format)
            if virtual_size > size * units.GiB:
                raise exception.InvalidVolume(reason=f"the disk of image {image_id} has {virtual_size} bytes, more than the "
                                                     f"{size} GiB of the volume")
            _run("qemu-img", "convert", "-f", disk_format, "-O", "raw", str(fetched), str(path))
            os.truncate(path, size * units.GiB)
        finally:
            fetched.unlink(missing_ok=True)

    return build


def _beside(part: pathlib.Path) -> pathlib.Path:
    return part.with_name(part.name + _IMAGE)


def _run(*arguments: str) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603
    if done.returncode:
        raise OSError(f"{arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
