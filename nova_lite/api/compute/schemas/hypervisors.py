"""Schemas of /os-hypervisors."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters, validation

_253 = {"limit": validation.single(parameters.QUERY_LIMIT), "marker": validation.single(shapes.STRING),
        "hypervisor_hostname_pattern": validation.single(parameters.HOST),
        "with_servers": validation.single(parameters.BOOLEAN)}
_SHOW = {"with_servers": _253["with_servers"]}
LIST_QUERY = {"2.1": shapes.query({}), "2.33": shapes.query(shapes.PAGE), "2.53": shapes.query(_253, strict=True)}
SHOW_QUERY = {"2.1": shapes.query({}), "2.53": shapes.query(_SHOW, strict=True)}
NO_QUERY = {"2.1": shapes.query({}), "2.75": shapes.query({}, strict=True)}

_SERVERS = {"servers": {"type": "array", "items": shapes.closed({"name": shapes.STRING, "uuid": parameters.UUID})}}
_BRIEF = shapes.closed({"id": shapes.INTEGER, "hypervisor_hostname": shapes.STRING, "state": {"enum": ["up", "down"]},
                        "status": {"enum": ["enabled", "disabled"]}})
_SERVICE = shapes.closed({"id": shapes.INTEGER, "host": shapes.STRING, "disabled_reason": shapes.MAYBE_STRING})
_NUMBERS = ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb",
            "current_workload", "running_vms", "free_disk_gb")
_USAGE: shapes.Json = dict.fromkeys(_NUMBERS, shapes.INTEGER) | {"disk_available_least": shapes.MAYBE_INTEGER}
_FULL = shapes.plus(_BRIEF, {
    **_USAGE, "cpu_info": shapes.STRING, "host_ip": shapes.MAYBE_STRING, "hypervisor_type": shapes.STRING,
    "hypervisor_version": shapes.INTEGER, "service": _SERVICE})
_UUID = {"id": parameters.UUID}
_BRIEF_253 = shapes.plus(_BRIEF, _UUID, _SERVERS)
_FULL_228 = shapes.plus(_FULL, {"cpu_info": {"type": "object"}})
_FULL_253 = shapes.plus(_FULL_228, {**_UUID, "service": shapes.plus(_SERVICE, _UUID)}, _SERVERS)
_FULL_288 = shapes.plus(shapes.without(_FULL_253, *_USAGE, "cpu_info"), {"uptime": shapes.MAYBE_STRING})
_FULLS = {"2.1": _FULL, "2.28": _FULL_228, "2.53": _FULL_253, "2.88": _FULL_288}
SHOW = {version: shapes.wrapped("hypervisor", full) for version, full in _FULLS.items()}
DETAIL = {"2.1": shapes.listing("hypervisors", _FULL), "2.28": shapes.listing("hypervisors", _FULL_228),
          "2.33": shapes.listing("hypervisors", _FULL_228, paged=True),
          "2.53": shapes.listing("hypervisors", _FULL_253, paged=True),
          "2.88": shapes.listing("hypervisors", _FULL_288, paged=True)}
LIST = {"2.1": shapes.listing("hypervisors", _BRIEF), "2.33": shapes.listing("hypervisors", _BRIEF, paged=True),
        "2.53": shapes.listing("hypervisors", _BRIEF_253, paged=True)}
SEARCH = shapes.listing("hypervisors", _BRIEF)
SERVERS = shapes.listing("hypervisors", shapes.plus(_BRIEF, {}, _SERVERS))
_UPTIME = shapes.plus(_BRIEF, {"uptime": shapes.MAYBE_STRING})
UPTIME = {"2.1": shapes.wrapped("hypervisor", _UPTIME), "2.53": shapes.wrapped("hypervisor", shapes.plus(_UPTIME, _UUID))}
STATISTICS = shapes.wrapped("hypervisor_statistics", shapes.closed({**_USAGE, "count": shapes.INTEGER}))
