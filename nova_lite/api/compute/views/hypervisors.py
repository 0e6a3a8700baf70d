"""The view of a hypervisor, by microversion."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import services


def brief(req: Request, node: Mapping[str, Any], servers: Sequence[Mapping[str, str]] | None = None) -> dict[str, Any]:
    """Name and state; ``servers`` None: they were not asked for."""
    service = node["service"]
    up = services.is_up(service, req.services.conf.compute.service_down_time)
    view = {"id": node["uuid"] if req.since("2.53") else node["id"], "hypervisor_hostname": node["hypervisor_hostname"],
            "state": "up" if up else "down", "status": "disabled" if service["disabled"] else "enabled"}
    if servers or (servers is not None and req.since("2.75")):
        view["servers"] = [{"name": server["name"], "uuid": server["uuid"]} for server in servers]
    return view


def full(req: Request, node: Mapping[str, Any], servers: Sequence[Mapping[str, str]] | None = None) -> dict[str, Any]:
    """All there is to see: with usage until 2.87, with uptime from then on."""
    service = node["service"]
    view = brief(req, node, servers) | {
        "host_ip": node["host_ip"], "hypervisor_type": node["hypervisor_type"],
        "hypervisor_version": node["hypervisor_version"],
        "service": {"id": service["uuid"] if req.since("2.53") else service["id"], "host": service["host"],
                    "disabled_reason": service["disabled_reason"]}}
    if req.since("2.88"):
        return view | {"uptime": node["uptime"] if view["state"] == "up" else None}
    return view | _usage(node) | {"cpu_info": _cpu_info(req, node["cpu_info"])}


def _usage(node: Mapping[str, Any]) -> dict[str, Any]:
    memory_used = node["memory_mb_used"] + node["reserved_memory_mb"]
    disk_used = node["local_gb_used"] + node["reserved_local_gb"]
    free_disk = node["local_gb"] - disk_used if node["free_disk_gb"] is None else node["free_disk_gb"]
    return {"vcpus": node["vcpus"], "vcpus_used": node["vcpus_used"], "memory_mb": node["memory_mb"],
            "memory_mb_used": memory_used, "free_ram_mb": node["memory_mb"] - memory_used, "local_gb": node["local_gb"],
            "local_gb_used": disk_used, "free_disk_gb": free_disk, "disk_available_least": node["disk_available_least"],
            "current_workload": node["io_ops"], "running_vms": node["instances_used"]}


def _cpu_info(req: Request, info: Any) -> Any:
    info = json.loads(info) if isinstance(info, str) and info else (info or {})
    return info if req.since("2.28") else json.dumps(info)
