"""Records in a directory, one JSON file each, for embedded services.

A file is created and changed by an atomic rename. So a reader sees an old record or a new one, and a killed writer leaves at
most a ``.part`` file (see ``durable.sweep``). The file is on the disk before it has its name. Ids must be UUIDs, so an id
cannot name another path.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import pathlib
import threading
import uuid
from collections.abc import Iterator
from typing import Generic, TypeVar

from oslo_log import log

from nova_lite import durable
from nova_lite.objects.base import Record
from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)
R = TypeVar("R", bound=Record)


class RecordDirectory(Generic[R]):
    """The records of one kind."""

    def __init__(self, directory: pathlib.Path, kind: type[R]) -> None:
        self._directory, self._kind = directory, kind

    def read(self, record_id: str) -> R | None:
        """One record, if it exists. A record that cannot be parsed is logged, and counts as missing, so that the others can be
        used."""
        if not is_uuid(record_id):
            return None
        try:
            return self._kind.from_primitive(json.loads(self._path(record_id).read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:        # no JSON, or of something else
            LOG.error("The record %s cannot be read: %s", self._path(record_id), error)
            return None

    def all(self) -> list[R]:
        """Every record, in no order."""
        found = (self.read(path.stem) for path in self._directory.glob("*.json"))
        return [record for record in found if record is not None]       # None: deleted since the directory was read

    def write(self, record_id: str, record: R) -> None:
        """Add or replace one."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with durable.written_whole(self._path(record_id), mode=0o644, unique=True) as part:
            part.write_text(json.dumps(record.to_primitive(), indent=1, sort_keys=True))

    def remove(self, record_id: str) -> None:
        """Forget one; gone already is no error."""
        self._path(record_id).unlink(missing_ok=True)

    def _path(self, record_id: str) -> pathlib.Path:
        return self._directory / f"{record_id}.json"


class DirectoryLock:
    """Serialises writers: threads of this process by a lock, so that they hold no native thread; processes by a lock file."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While the block runs."""
        self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        with self._lock, open(self._directory / ".lock", "w") as lock:
            concurrency.native(fcntl.flock, lock, fcntl.LOCK_EX)
            yield


def is_uuid(value: object) -> bool:
    """Only the canonical form: nothing else may become part of a path."""
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False
