"""The ids of deleted images: hosts cache images by their id, so an id must never be used again. One file, with one line per id:
a tenant who makes and deletes images takes 37 bytes of the disk each time. The caller holds the lock.
"""
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
        """Add ids; returns when they are on the disk. An id may be added again."""
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
