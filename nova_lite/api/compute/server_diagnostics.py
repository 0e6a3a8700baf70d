"""/servers/{server_id}/diagnostics: what the hypervisor counts of a running guest."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.compute.views import server_diagnostics as view
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects import states
from nova_lite.objects.diagnostics import DISK, NIC
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin

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


def show(req: Request, instance: Instance) -> dict[str, Any]:
    """Until 2.47 names and numbers as the hypervisor has them, since 2.48 the same form for all hypervisors."""
    found = req.services.compute.get_diagnostics(req.context, instance)
    return view.standard(found) if req.since("2.48") else view.plain(found)


ROUTES = [
    Route("GET", "/servers/{server_id}/diagnostics", show,
          admin("os_compute_api:os-server-diagnostics", "Show the diagnostics of a server."), response=SHOW),
]
