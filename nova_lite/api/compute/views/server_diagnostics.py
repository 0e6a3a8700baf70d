"""The view of diagnostics."""
from __future__ import annotations

from typing import Any

from nova_lite.objects.diagnostics import DISK, NIC, Diagnostics

_PLAIN_DISK = {"read_requests": "read_req", "read_bytes": "read", "write_requests": "write_req", "write_bytes": "write",
               "errors_count": "errors"}
_PLAIN_NIC = {"rx_octets": "rx", "rx_packets": "rx_packets", "rx_errors": "rx_errors", "rx_drop": "rx_drop",
              "tx_octets": "tx", "tx_packets": "tx_packets", "tx_errors": "tx_errors", "tx_drop": "tx_drop"}


def standard(found: Diagnostics) -> dict[str, Any]:
    """The form of 2.48."""
    return {
        "state": found.state, "driver": found.driver, "hypervisor": found.hypervisor, "hypervisor_os": found.hypervisor_os,
        "uptime": found.uptime, "config_drive": found.config_drive, "num_cpus": len(found.cpus),
        "num_disks": len(found.disks), "num_nics": len(found.nics),
        "memory_details": {"maximum": found.memory_maximum, "used": found.memory_used},
        "cpu_details": [{name: cpu.get(name) for name in ("id", "time", "utilisation")} for cpu in found.cpus],
        "disk_details": [{name: disk.get(name) for name in DISK} for disk in found.disks],
        "nic_details": [{name: nic.get(name) for name in ("mac_address", *NIC)} for nic in found.nics]}


def plain(found: Diagnostics) -> dict[str, Any]:
    """The form until 2.47: what is not known is not there; memory is in KiB, and errors that are not counted are -1."""
    view: dict[str, Any] = {f"cpu{cpu['id']}_time": cpu["time"] for cpu in found.cpus}
    for disk in found.disks:
        view |= {f"{disk['name']}_{name}": -1 if disk.get(ours) is None else disk[ours] for ours, name in _PLAIN_DISK.items()}
    for nic in found.nics:
        view |= {f"{nic['name']}_{name}": nic[ours] for ours, name in _PLAIN_NIC.items() if nic.get(ours) is not None}
    if found.memory_maximum is not None:
        view["memory"] = found.memory_maximum * 1024
    return view | {f"memory-{name}": value for name, value in found.memory.items()}
