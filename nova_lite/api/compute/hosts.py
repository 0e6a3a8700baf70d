"""/os-hosts: the machines behind services and hypervisors, for old clients (until 2.42)."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.compute.services import INTERNAL
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import aggregates, hypervisors, services
from nova_lite.policies.base import admin

LIST_QUERY = shapes.query({"zone": shapes.ANY_PARAM})
LIST = shapes.listing("hosts", shapes.closed(dict.fromkeys(("host_name", "service", "zone"), shapes.STRING)))
_RESOURCE = shapes.closed({**dict.fromkeys(("cpu", "disk_gb", "memory_mb"), shapes.INTEGER), "host": shapes.STRING,
                           "project": shapes.STRING})
SHOW = shapes.listing("host", shapes.wrapped("resource", _RESOURCE))
_SWITCH = {"enum": ["enable", "Enable", "ENABLE", "disable", "Disable", "DISABLE"]}
UPDATE = shapes.closed({}, {"status": _SWITCH, "maintenance_mode": _SWITCH}, minProperties=1)
UPDATED = shapes.closed({"host": shapes.STRING}, {"status": {"enum": ["enabled", "disabled"]},
                                                  "maintenance_mode": {"enum": ["on_maintenance", "off_maintenance"]}})
POWER = shapes.closed({"host": shapes.STRING, "power_action": {"enum": ["startup", "shutdown", "reboot"]}})

LAST = "2.42"


def index(req: Request) -> dict[str, Any]:
    """The services that are not disabled, or those of one zone."""
    wanted = params.last(req, "zone")
    default = req.services.conf.compute.default_availability_zone
    with req.services.db.read() as conn:
        found, zones = services.list_all(conn), aggregates.zones_by_host(conn)
    shown = []
    for service in found:
        zone = zones.get(service["host"], default) if service["binary"] == services.COMPUTE else INTERNAL
        if not service["disabled"] and wanted in (None, "", zone):
            shown.append({"host_name": service["host"], "service": service["binary"].removeprefix("nova-"), "zone": zone})
    return {"hosts": shown}


def show(req: Request, host_name: str) -> dict[str, Any]:
    """The resources of a compute host, the claimed part, and the claims of its servers, in total and by project."""
    with req.services.db.read() as conn:
        node, servers = hypervisors.first_of_host(conn, host_name), hypervisors.promised(conn, host_name)
    projects: dict[str, list[Mapping[str, Any]]] = {}
    for server in servers:
        projects.setdefault(server["project_id"], []).append(server)
    rows = [_resource(host_name, "(total)", node["vcpus"], node["memory_mb"], node["local_gb"]),
            _resource(host_name, "(used_now)", node["vcpus_used"], node["memory_mb_used"] + node["reserved_memory_mb"],
                      node["local_gb_used"] + node["reserved_local_gb"]),
            _sum(host_name, "(used_max)", servers), *[_sum(host_name, name, rows) for name, rows in projects.items()]]
    return {"host": rows}


def _sum(host: str, project: str, servers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    rows = list(servers)
    return _resource(host, project, *[sum(row[name] for row in rows) for name in ("vcpus", "memory_mb", "disk_gb")])


def _resource(host: str, project: str, vcpus: int, memory_mb: int, disk_gb: int) -> dict[str, Any]:
    return {"resource": {"host": host, "project": project, "cpu": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb}}


def update(req: Request, host_name: str) -> dict[str, Any]:
    """Let new servers go to a host, or not. No host has a mode of maintenance."""
    if "maintenance_mode" in req.json_in:
        _find(req, host_name)
        raise exception.NotImplementedByDriver(what="maintenance mode")
    enabled = req.json_in["status"].lower() == "enable"
    req.services.db.write(_enable, host_name, enabled)
    return {"host": host_name, "status": "enabled" if enabled else "disabled"}


def _enable(conn: sa.Connection, host: str, enabled: bool) -> None:
    services.update(conn, _service(conn, host)["id"], {"disabled": not enabled, "disabled_reason": None})


def startup(req: Request, host_name: str) -> NoReturn:
    """Switch a machine on: no driver can."""
    _find(req, host_name)
    raise exception.NotImplementedByDriver(what="power actions of hosts")


def shutdown(req: Request, host_name: str) -> NoReturn:
    """Switch a machine off: no driver does."""
    startup(req, host_name)


def reboot(req: Request, host_name: str) -> NoReturn:
    """Start a machine again: no driver does."""
    startup(req, host_name)


def _find(req: Request, host: str) -> None:
    with req.services.db.read() as conn:
        _service(conn, host)


def _service(conn: sa.Connection, host: str) -> dict[str, Any]:
    try:
        return services.get_by_host(conn, host, services.COMPUTE)
    except exception.HostBinaryNotFound:
        raise exception.ComputeHostNotFound(host=host) from None


_RULE = "os_compute_api:os-hosts"
_HOST = "/os-hosts/{host_name}"
ROUTES = [
    Route("GET", "/os-hosts", index, admin(f"{_RULE}:list", "List hosts."), last=LAST, query=LIST_QUERY,
          response=LIST),
    Route("GET", _HOST, show, admin(f"{_RULE}:show", "Show a host."), last=LAST, response=SHOW),
    Route("PUT", _HOST, update, admin(f"{_RULE}:update", "Change the status of a host."), last=LAST, body=UPDATE,
          response=UPDATED),
    Route("GET", f"{_HOST}/startup", startup, admin(f"{_RULE}:start", "Start a host."), last=LAST, response=POWER),
    Route("GET", f"{_HOST}/shutdown", shutdown, admin(f"{_RULE}:shutdown", "Shut a host down."), last=LAST,
          response=POWER),
    Route("GET", f"{_HOST}/reboot", reboot, admin(f"{_RULE}:reboot", "Reboot a host."), last=LAST, response=POWER),
]
