"""How many sockets, cores and threads a guest sees, and whether its CPUs are its own."""
from __future__ import annotations

from typing import NamedTuple

from nova_lite import exception
from nova_lite.objects.hardware.asked import Asked, among

SHARED, DEDICATED = "shared", "dedicated"
PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
_MOST = 65536


class Topology(NamedTuple):
    """Their product is the number of vCPUs."""

    sockets: int
    cores: int
    threads: int


class Policy(NamedTuple):
    """``dedicated``: each vCPU has a CPU of the host for itself. ``threads``: prefer, isolate or require."""

    dedicated: bool
    threads: str = PREFER


def topology(asked: Asked) -> Topology:
    """The topology that fits the preferences best, as Nova chooses it: within the limits, with as many preferences met as
    possible; sockets before cores, cores before threads. Raises InvalidHardware when the limits allow none."""
    limits = [_limit(asked, part) for part in Topology._fields]
    wishes = [_wish(asked, part, limit) for part, limit in zip(Topology._fields, limits, strict=True)]
    vcpus = asked.flavor.vcpus
    best, score = None, -1
    for sockets in range(min(vcpus, limits[0]), 0, -1):
        if vcpus % sockets:
            continue
        for cores in range(min(vcpus // sockets, limits[1]), 0, -1):
            threads, rest = divmod(vcpus // sockets, cores)
            if rest or threads > limits[2]:
                continue
            found = Topology(sockets, cores, threads)
            matches = sum(have == wish for have, wish in zip(found, wishes, strict=True) if wish is not None)
            if matches > score:
                best, score = found, matches
    if best is None:
        raise exception.InvalidHardware(reason=f"{vcpus} vcpus cannot be had with at most {limits[0]} sockets, {limits[1]} "
                                               f"cores and {limits[2]} threads")
    return best


def _limit(asked: Asked, part: str) -> int:
    spec, given = asked.number(f"hw:cpu_max_{part}"), asked.number(f"hw_cpu_max_{part}")
    if spec is not None and given is not None and given > spec:
        raise exception.InvalidHardware(reason=f"Image vCPU limits: hw_cpu_max_{part}={given} exceeds hw:cpu_max_{part}={spec} "
                                               f"of flavor {asked.flavor.name}")
    return given or spec or _MOST


def _wish(asked: Asked, part: str, limit: int) -> int | None:
    spec, given = asked.number(f"hw:cpu_{part}"), asked.number(f"hw_cpu_{part}")
    if given is not None and spec is None and given > limit:
        raise exception.InvalidHardware(reason=f"Image vCPU topology: hw_cpu_{part}={given} exceeds the limit {limit}")
    if spec is not None and spec > limit:
        raise exception.InvalidHardware(reason=f"flavor {asked.flavor.name}: hw:cpu_{part}={spec} exceeds the limit {limit}")
    return spec or given


def policy(asked: Asked) -> Policy:
    """Raises InvalidHardware."""
    spec = among(asked, "hw:cpu_policy", asked.spec("hw:cpu_policy"), (SHARED, DEDICATED, "mixed"))
    given = among(asked, "hw_cpu_policy", asked.property("hw_cpu_policy"), (SHARED, DEDICATED, "mixed"))
    if "mixed" in (spec, given):
        name = "hw:cpu_policy" if spec == "mixed" else "hw_cpu_policy"
        raise exception.InvalidHardware(reason=f"{name}=mixed: CPUs of both kinds in one guest are not offered")
    if spec == SHARED and given == DEDICATED:
        raise exception.InvalidHardware(reason="Image property 'hw_cpu_policy' is not permitted to override CPU pinning policy "
                                               "set against the flavor")
    dedicated = DEDICATED in (spec, given)
    threads = _thread_policy(asked)
    if threads is not None and not dedicated:
        raise exception.InvalidHardware(reason="Cannot set cpu thread pinning policy in a non dedicated cpu pinning policy")
    emulator = among(asked, "hw:emulator_threads_policy", asked.spec("hw:emulator_threads_policy"), ("share", ISOLATE))
    if emulator == ISOLATE:
        raise exception.InvalidHardware(reason="hw:emulator_threads_policy=isolate: a CPU for the emulator is not offered")
    return Policy(dedicated, threads or PREFER)


def _thread_policy(asked: Asked) -> str | None:
    allowed = (PREFER, ISOLATE, REQUIRE)
    spec = among(asked, "hw:cpu_thread_policy", asked.spec("hw:cpu_thread_policy"), allowed)
    given = among(asked, "hw_cpu_thread_policy", asked.property("hw_cpu_thread_policy"), allowed)
    if spec in (ISOLATE, REQUIRE) and given is not None and spec != given:
        raise exception.InvalidHardware(reason="Image property 'hw_cpu_thread_policy' is not permitted to override CPU thread "
                                               "pinning policy set against the flavor")
    return given if spec in (None, PREFER) and given is not None else spec
