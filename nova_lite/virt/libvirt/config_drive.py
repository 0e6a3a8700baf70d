"""The config drive: an ISO9660 file system labelled config-2."""
from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Mapping

from nova_lite import durable, exception
from nova_lite.virt.libvirt import images

LABEL = "config-2"
_PROGRAMS = (("genisoimage",), ("mkisofs",), ("xorrisofs",), ("xorriso", "-as", "mkisofs"))


def make(path: pathlib.Path, contents: Mapping[str, bytes]) -> None:
    """Write the drive with ``contents`` (path inside the drive -> data); only its owner may read the file.

    Raises ValueError for a path that leads out of the drive, ConfigError when no program can write ISO9660.
    """
    program = next((p for p in _PROGRAMS if shutil.which(p[0])), None)
    if program is None:
        raise exception.ConfigError(reason="a config drive needs genisoimage or xorriso, and neither is installed")
    tree = path.with_name(path.name + ".tree")
    shutil.rmtree(tree, ignore_errors=True)     # of a process that was killed
    try:
        tree.mkdir(mode=0o700)
        for name, data in contents.items():
            _put(tree, name, data)
        with durable.written_whole(path) as part:
            images.run(*program, "-quiet", "-o", part, "-V", LABEL, "-l", "-r", "-J", "-joliet-long", tree)
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _put(tree: pathlib.Path, name: str, data: bytes) -> None:
    inside = pathlib.PurePosixPath(name.lstrip("/"))
    if not inside.parts or ".." in inside.parts:
        raise ValueError(f"{name!r} is not a path inside a config drive")
    target = tree / inside
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(data)
