"""Files that survive a loss of power: a file is complete or does not exist, and exists once its writer has returned. Also
removes what killed processes have left of such files.
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import tempfile
import time
import uuid
from collections.abc import Iterator

from oslo_log import log

from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)
PART = ".part"       # the end of temporary names
_DAY = 86400


@contextlib.contextmanager
def written_whole(path: pathlib.Path, *, mode: int = 0o600, unique: bool = False, sync: bool = True) -> Iterator[pathlib.Path]:
    """The name of a temporary file beside ``path``, which becomes ``path`` when the block succeeds, and is removed when it does
    not.

    The file exists, empty, with ``mode``, so that other users cannot read it while it is written. It is on the disk before it
    gets its name, so after a loss of power ``path`` is complete or does not exist. ``sync`` False: it survives only the end of
    the process. ``unique``: other writers may write the same path at the same time, so the temporary name is a new one. The
    temporary files that killed processes have left for ``path`` are deleted first.
    """
    if unique:
        _discard_left(path)
        part, descriptor = _new_part(path, mode)
    else:
        part = path.with_name(path.name + PART)
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode)
    try:
        yield part
        if sync:
            put_in_place(part, path)
        else:
            os.rename(part, path)
    finally:
        os.close(descriptor)
        part.unlink(missing_ok=True)


def _new_part(path: pathlib.Path, mode: int) -> tuple[pathlib.Path, int]:
    """A temporary file with a new name. Its lock says that its writer lives."""
    while True:
        part = path.with_name(f"{path.name}.{uuid.uuid4()}{PART}")
        descriptor = os.open(part, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return part, descriptor
        os.close(descriptor)        # another writer has deleted the file before it was locked


def _discard_left(path: pathlib.Path) -> None:
    """Delete the temporary files of :func:`_new_part` whose writers are dead."""
    for name in os.listdir(path.parent):
        if name.startswith(f"{path.name}.") and name.endswith(PART):
            part = path.with_name(name)
            with contextlib.suppress(FileNotFoundError, BlockingIOError), open(part, "r+b") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


def put_in_place(part: pathlib.Path, path: pathlib.Path) -> None:
    """Give a file that was written under a temporary name in the same directory its name. Raises OSError."""
    concurrency.native(_put_in_place, part, path)


def write_new(path: pathlib.Path, text: str) -> bool:
    """Write a file unless it exists: of several simultaneous writers one succeeds. Raises OSError."""
    return concurrency.native(_write_new, path, text)


def sweep(directory: pathlib.Path, data: str) -> None:
    """Of a directory of records (``<id>.json``) with their data (``<id>`` and this suffix), whose lock the caller holds, remove
    what killed writers have left: temporary files, and data without a record. Files younger than a day, or locked, may be in
    use. A failure is logged."""
    temporary = [*directory.glob("*.part"), *directory.glob("*.part.*")]
    for path in [*temporary, *(path for path in directory.glob(f"*{data}") if not path.with_suffix(".json").exists())]:
        try:
            if path.stat().st_mtime < time.time() - _DAY:
                with open(path, "rb") as stream, contextlib.suppress(BlockingIOError):
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
        except FileNotFoundError:
            continue        # its writer lives, and is done
        except OSError as error:
            LOG.warning("files of a killed process cannot be removed: %s", error)


def _put_in_place(part: pathlib.Path, path: pathlib.Path) -> None:
    _sync(part)
    os.rename(part, path)
    _sync(path.parent)


def _write_new(path: pathlib.Path, text: str) -> bool:
    descriptor, part = tempfile.mkstemp(".part", f"{path.name}.", path.parent)
    try:
        with open(descriptor, "w") as stream:
            stream.write(text)
        _sync(pathlib.Path(part))
        os.link(part, path)
        _sync(path.parent)
    except FileExistsError:
        return False
    finally:
        os.unlink(part)
    return True


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
