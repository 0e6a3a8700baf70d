"""The ids of deleted images: hosts keep images by their id, so nobody else's may ever have one of these. One file, a line for
each, so that a tenant who makes and deletes images without end takes 37 bytes of the disk each time. The caller locks."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from nova_lite.runtime import concurrency

_LINE = 37      # bytes: a UUID and a line feed


class DeletedIds:
    """``path`` is made at the first id."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def add(self, *image_ids: str) -> None:
        """Returns when the ids are on the disk. One that is there already does no harm."""
        concurrency.native(self._append, image_ids)

    def __contains__(self, image_id: str) -> bool:
        return concurrency.native(self._holds, image_id.encode())

    def _append(self, image_ids: Sequence[str]) -> None:
        with open(self._path, "ab") as stream:
            stream.truncate(stream.tell() // _LINE * _LINE)     # a killed writer may have left a part of a line
            stream.write("".join(f"{image_id}\n" for image_id in image_ids).encode())
            stream.flush()
            os.fsync(stream.fileno())

    def _holds(self, image_id: bytes) -> bool:
        try:
            with open(self._path, "rb") as stream:
                return any(line.rstrip() == image_id for line in stream)
        except FileNotFoundError:
            return False
