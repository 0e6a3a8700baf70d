"""Files that outlive the loss of power: whole or not there, and there once they were said to be."""
from __future__ import annotations

import os
import pathlib

from nova_lite import concurrency


def put_in_place(part: pathlib.Path, path: pathlib.Path) -> None:
    """Give a file that was written under a temporary name in the same directory its name. Raises OSError."""
    concurrency.native(_put_in_place, part, path)


def rename(path: pathlib.Path, new: pathlib.Path) -> None:
    """Give a whole file another name in the same directory. Raises OSError."""
    concurrency.native(_rename, path, new)


def _put_in_place(part: pathlib.Path, path: pathlib.Path) -> None:
    _sync(part)
    _rename(part, path)


def _rename(path: pathlib.Path, new: pathlib.Path) -> None:
    os.rename(path, new)
    _sync(new.parent)


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
