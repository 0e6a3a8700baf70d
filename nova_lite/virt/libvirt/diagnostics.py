"""libvirt's statistics of a domain as Diagnostics."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_lite import units
from nova_lite.objects import states
from nova_lite.objects.diagnostics import Counts, Diagnostics
from nova_lite.objects.instance import Instance
from nova_lite.virt.libvirt.guest import POWER_STATES

# ours -> the end of libvirt's name
_DISK = {"read_bytes": "rd.bytes", "read_requests": "rd.reqs", "write_bytes": "wr.bytes", "write_requests": "wr.reqs",
         "errors_count": "errors"}
_NIC = {"rx_octets": "rx.bytes", "rx_errors": "rx.errs", "rx_drop": "rx.drop", "rx_packets": "rx.pkts",
        "tx_octets": "tx.bytes", "tx_errors": "tx.errs", "tx_drop": "tx.drop", "tx_packets": "tx.pkts"}
_BALLOON = "balloon."


def make(stats: Mapping[str, Any], instance: Instance, virt_type: str) -> Diagnostics:
    """``stats``: see virConnectGetAllDomainStats; groups that the hypervisor does not have are missing in it."""
    uptime = int((units.utcnow() - instance.launched_at).total_seconds()) if instance.launched_at else None
    memory = {name.removeprefix(_BALLOON): int(value) for name, value in stats.items() if name.startswith(_BALLOON)}
    maximum, current = memory.pop("maximum", None), memory.pop("current", None)
    return Diagnostics(
        state=states.POWER_NAMES[POWER_STATES.get(stats.get("state.state", 0), states.NOSTATE)], driver="libvirt",
        hypervisor=virt_type, hypervisor_os="linux", uptime=uptime, config_drive=instance.config_drive,
        memory_maximum=_mib(maximum), memory_used=_mib(current), cpus=_cpus(stats),
        disks=[_counts(stats, f"block.{number}", _DISK) for number in range(stats.get("block.count", 0))],
        nics=_nics(stats, instance), memory=memory)


def _mib(kib: int | None) -> int | None:
    return None if kib is None else kib // 1024


def _cpus(stats: Mapping[str, Any]) -> list[Counts]:
    return [{"id": number, "time": stats[f"vcpu.{number}.time"], "utilisation": None}
            for number in range(stats.get("vcpu.maximum", 0)) if f"vcpu.{number}.time" in stats]


def _nics(stats: Mapping[str, Any], instance: Instance) -> list[Counts]:
    addresses = {vif.devname: vif.mac_address for vif in instance.network_info}
    found = [_counts(stats, f"net.{number}", _NIC) for number in range(stats.get("net.count", 0))]
    return [{**nic, "mac_address": addresses.get(nic["name"]), "rx_rate": None, "tx_rate": None} for nic in found]


def _counts(stats: Mapping[str, Any], prefix: str, names: Mapping[str, str]) -> Counts:
    counts = {ours: stats.get(f"{prefix}.{theirs}") for ours, theirs in names.items()}
    return {"name": stats.get(f"{prefix}.name", prefix), **counts}
