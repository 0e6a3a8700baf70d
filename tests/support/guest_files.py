"""Who a guest's process is, and who else may read its files."""
from __future__ import annotations

import pathlib
import pwd
import stat


def process_user(pid: int) -> str:
    """The name of the user as whom a process acts."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[2]
    return pwd.getpwuid(int(effective)).pw_name


def open_to_others(instances: pathlib.Path) -> list[str]:
    """The files of guests and the base images below ``instances`` that other users may read, write or execute, and the base
    images that anybody may write to; locks, which are empty, do not count."""
    found = []
    for path in instances.glob("*/*"):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and path.lstat().st_size and mode & (0o227 if path.parent.name == "_base" else 0o007):
            found.append(f"{path} {stat.filemode(mode)}")
    return found
