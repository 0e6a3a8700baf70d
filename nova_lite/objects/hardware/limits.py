"""What a flavor lets a guest use of its host at most, under libvirt's names."""
from __future__ import annotations

from nova_lite import exception
from nova_lite.objects.hardware.asked import Asked

_CPU = ("shares", "period", "quota")
_DISK = tuple(f"{way}_{what}_sec{peak}" for way in ("read", "write", "total") for what in ("bytes", "iops")
              for peak in ("", "_max", "_max_length"))
_WAYS, _RATES = ("inbound", "outbound"), ("average", "peak", "burst")


def cpu(asked: Asked) -> dict[str, int]:
    """shares, period and quota in microseconds, as far as the flavor says. Raises InvalidHardware."""
    return _numbers(asked, {f"quota:cpu_{name}": name for name in _CPU})


def disk(asked: Asked) -> dict[str, int]:
    """Of each disk: bytes or requests in a second, peaks and their seconds. Raises InvalidHardware."""
    found = _numbers(asked, {f"quota:disk_{name}": name for name in _DISK})
    for what in ("bytes", "iops"):
        if f"total_{what}_sec" in found and (f"read_{what}_sec" in found or f"write_{what}_sec" in found):
            raise exception.InvalidHardware(reason=f"flavor {asked.flavor.name} limits the {what} of disks in total and by "
                                                   "reads or writes: only one is possible")
    return found


def vif(asked: Asked) -> dict[tuple[str, str], int]:
    """Of each nic, (inbound or outbound, average, peak or burst): KiB in a second, burst in KiB. Raises InvalidHardware."""
    found = {(way, rate): _numbers(asked, {f"quota:vif_{way}_{rate}": rate}) for way in _WAYS for rate in _RATES}
    for way in _WAYS:
        if not found[way, "average"] and (found[way, "peak"] or found[way, "burst"]):
            raise exception.InvalidHardware(reason=f"flavor {asked.flavor.name}: quota:vif_{way}_peak and _burst need "
                                                   f"quota:vif_{way}_average")
    return {key: value[key[1]] for key, value in found.items() if value}


def check(asked: Asked) -> None:
    """Raises InvalidHardware."""
    cpu(asked)
    disk(asked)
    vif(asked)


def _numbers(asked: Asked, names: dict[str, str]) -> dict[str, int]:
    """{extra spec: name of ours} -> {name of ours: value} for what the flavor has; a CPU quota of -1 is none."""
    found = {}
    for key, name in names.items():
        if key == "quota:cpu_quota" and asked.spec(key) == "-1":
            found[name] = -1
        elif (value := asked.number(key, 0)) is not None:
            found[name] = value
    return found
