"""Schemas of /servers/{server_id}/diagnostics."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.objects import states
from nova_lite.objects.diagnostics import DISK, NIC

_MAYBE = shapes.MAYBE_INTEGER


def _details(*names: str) -> shapes.Json:
    return {"type": "array", "items": shapes.closed(dict.fromkeys(names, _MAYBE))}


_NIC = shapes.closed({**dict.fromkeys(NIC, _MAYBE), "mac_address": shapes.MAYBE_STRING})
_STANDARD = shapes.closed({
    "state": {"enum": list(states.POWER_NAMES.values())}, "driver": {"enum": ["libvirt", "ironic", "vmwareapi", "xenapi"]},
    "hypervisor": shapes.MAYBE_STRING, "hypervisor_os": shapes.MAYBE_STRING, "uptime": _MAYBE, "config_drive": shapes.BOOLEAN,
    "num_cpus": shapes.INTEGER, "num_nics": shapes.INTEGER, "num_disks": shapes.INTEGER,
    "memory_details": shapes.closed({"maximum": _MAYBE, "used": _MAYBE}), "cpu_details": _details("id", "time", "utilisation"),
    "disk_details": _details(*DISK), "nic_details": {"type": "array", "items": _NIC}})
SHOW = {"2.1": {"type": "object", "additionalProperties": shapes.INTEGER}, "2.48": _STANDARD}
