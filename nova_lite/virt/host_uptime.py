"""How long this host runs: the line that the command ``uptime`` prints, which clients take apart."""
from __future__ import annotations

import pathlib
import struct
import time

_LOGIN = struct.Struct("<h382x")        # a record of utmp: its type, and what is not wanted here
_USER_PROCESS = 7


def line(proc: pathlib.Path = pathlib.Path("/proc"), utmp: pathlib.Path = pathlib.Path("/run/utmp"),
         now: time.struct_time | None = None) -> str:
    """Time of day, time since the boot, users who are logged in, load averages of 1, 5 and 15 minutes."""
    seconds = float((proc / "uptime").read_text().split()[0])
    load = ", ".join((proc / "loadavg").read_text().split()[:3])
    users = _users(utmp)
    clock = time.strftime("%H:%M:%S", now or time.localtime())
    return f" {clock} up {_since_boot(int(seconds))}, {users} user{'' if users == 1 else 's'},  load average: {load}"


def _since_boot(seconds: int) -> str:
    days, minutes = seconds // 86400, seconds % 86400 // 60
    text = f"{minutes // 60:2d}:{minutes % 60:02d}" if minutes >= 60 else f"{minutes} min"
    return f"{days} day{'' if days == 1 else 's'}, {text}" if days else text


def _users(utmp: pathlib.Path) -> int:
    try:
        records = utmp.read_bytes()
    except FileNotFoundError:
        return 0
    whole = records[:len(records) - len(records) % _LOGIN.size]
    return sum(kind == _USER_PROCESS for kind, in _LOGIN.iter_unpack(whole))
