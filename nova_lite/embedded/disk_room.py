"""Free room on the disks of embedded services. A full disk stops more than the tenant who filled it: the database may be on the
same disk.
"""
from __future__ import annotations

import os
import pathlib
import shutil

from nova_lite import exception, units

RESERVE = units.GiB     # that is left free


def check(directory: pathlib.Path, needed: int = 0) -> None:
    """Raise StorageFull when the disk of the directory would have less than the reserve left after ``needed`` more bytes."""
    while not directory.exists():
        directory = directory.parent
    if shutil.disk_usage(directory).free - needed < RESERVE:
        raise exception.StorageFull()


def allocated(path: pathlib.Path) -> int:
    """The bytes that a file takes on the disk, which are fewer than its size when it is sparse."""
    return os.stat(path).st_blocks * 512
