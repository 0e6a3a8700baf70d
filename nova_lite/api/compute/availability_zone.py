"""/os-availability-zone: the zones and, for administrators, their services."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from nova_lite import units
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.compute.services import INTERNAL
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import aggregates, services
from nova_lite.policies.base import admin, anyone

_STATE = {"zoneName": shapes.STRING, "zoneState": shapes.closed({"available": shapes.BOOLEAN})}
_SERVICE = shapes.closed({"available": shapes.BOOLEAN, "active": shapes.BOOLEAN, "updated_at": shapes.MAYBE_TIME})
_HOSTS = {"type": ["object", "null"], "additionalProperties": {"type": "object", "additionalProperties": _SERVICE}}
LIST = shapes.listing("availabilityZoneInfo", shapes.closed({**_STATE, "hosts": {"type": "null"}}))
DETAIL = shapes.listing("availabilityZoneInfo", shapes.closed({**_STATE, "hosts": _HOSTS}))

Zones = dict[str, list[dict[str, Any]]]


def index(req: Request) -> dict[str, Any]:
    """The zones where servers can be."""
    with req.services.db.read() as conn:
        zones = services.zones(conn, req.services.conf.compute.default_availability_zone)
    zones.pop(INTERNAL, None)
    return {"availabilityZoneInfo": [_zone(name, available, None) for name, available in _in_order(zones)]}


def detail(req: Request) -> dict[str, Any]:
    """All zones with their services."""
    zones = _services_by_zone(req)
    available = {name: any(not service["disabled"] for service in members) for name, members in zones.items()}
    return {"availabilityZoneInfo": [_zone(name, is_open, _hosts(req, zones[name]) if is_open else None)
                                     for name, is_open in _in_order(available)]}


def _services_by_zone(req: Request) -> Zones:
    with req.services.db.read() as conn:
        found, zone_of = services.list_all(conn), aggregates.zones_by_host(conn)
    zones: Zones = defaultdict(list)
    default = req.services.conf.compute.default_availability_zone
    for service in found:
        is_compute = service["binary"] == services.COMPUTE
        zones[zone_of.get(service["host"], default) if is_compute else INTERNAL].append(service)
    return zones


def _in_order(zones: Mapping[str, bool]) -> list[tuple[str, bool]]:
    return sorted(zones.items(), key=lambda item: (not item[1], item[0]))


def _zone(name: str, available: bool, hosts: dict[str, Any] | None) -> dict[str, Any]:
    return {"zoneName": name, "zoneState": {"available": available}, "hosts": hosts}


def _hosts(req: Request, members: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    down_time = req.services.conf.compute.service_down_time
    hosts: dict[str, dict[str, Any]] = defaultdict(dict)
    for service in members:
        if not service["disabled"]:
            hosts[service["host"]][service["binary"]] = {
                "active": True, "available": services.is_up(service, down_time),
                "updated_at": units.isotime_micro(service["last_seen_at"])}
    return hosts


_RULE = "os_compute_api:os-availability-zone"
ROUTES = [
    Route("GET", "/os-availability-zone", index, anyone(f"{_RULE}:list", "List availability zones."), response=LIST),
    Route("GET", "/os-availability-zone/detail", detail, admin(f"{_RULE}:detail", "List availability zones with their hosts."),
          response=DETAIL),
]
