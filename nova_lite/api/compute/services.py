"""/os-services: who reports, and whether new servers may go there."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import strutils

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters
from nova_lite.api.openstack.faults import ResourceNotFound
from nova_lite.api.openstack.formats import is_uuid
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import aggregates, services
from nova_lite.policies.base import admin

_WHO = {"host": parameters.HOST, "binary": {"type": "string", "minLength": 1, "maxLength": 255}}
_REASON = {"disabled_reason": {"type": "string", "minLength": 1, "maxLength": 255}}
_DOWN = {"forced_down": parameters.BOOLEAN}
UPDATE = {"2.1": shapes.closed(_WHO, _REASON), "2.11": shapes.closed(_WHO, {**_REASON, **_DOWN}),
          "2.53": shapes.closed({}, {"status": {"enum": ["enabled", "disabled"]}, **_REASON, **_DOWN})}
_LIST_QUERY = {"host": shapes.ANY_PARAM, "binary": shapes.ANY_PARAM}
LIST_QUERY = {"2.1": shapes.query(_LIST_QUERY), "2.75": shapes.query(_LIST_QUERY, strict=True)}

_STATUS = {"enum": ["enabled", "disabled"]}
_SERVICE = shapes.closed({
    "id": shapes.INTEGER, "binary": shapes.STRING, "host": shapes.STRING, "zone": shapes.STRING, "status": _STATUS,
    "state": {"enum": ["up", "down"]}, "disabled_reason": shapes.MAYBE_STRING, "updated_at": shapes.MAYBE_TIME})
_SERVICE_211 = shapes.plus(_SERVICE, {"forced_down": shapes.BOOLEAN})
_SERVICE_253 = shapes.plus(_SERVICE_211, {"id": parameters.UUID})
LIST = {"2.1": shapes.listing("services", _SERVICE), "2.11": shapes.listing("services", _SERVICE_211),
        "2.53": shapes.listing("services", _SERVICE_253)}
_CHANGED = shapes.closed({"binary": shapes.STRING, "host": shapes.STRING},
                         {"status": _STATUS, "disabled_reason": shapes.STRING, "forced_down": shapes.BOOLEAN})
UPDATED = {"2.1": shapes.wrapped("service", _CHANGED), "2.53": shapes.wrapped("service", _SERVICE_253)}

INTERNAL = "internal"
"""The zone of services that host no servers."""


def index(req: Request) -> dict[str, Any]:
    """The services of the cloud."""
    with req.services.db.read() as conn:
        host = params.last(req, "host") or None
        found = services.list_all(conn, host, params.last(req, "binary") or None)
        zones = aggregates.zones_by_host(conn, [host] if host else None)
    return {"services": [_view(req, service, zones) for service in found]}


def update_legacy(req: Request, service_id: str) -> dict[str, Any]:
    """Until 2.52 the operation is part of the path: enable, disable, disable-log-reason, force-down (2.11)."""
    body = req.json_in
    view = {"host": body["host"], "binary": body["binary"]}
    if service_id in ("enable", "disable"):
        values: dict[str, Any] = {"disabled": service_id == "disable", "disabled_reason": None}
    elif service_id == "disable-log-reason":
        if "disabled_reason" not in body:
            raise exception.Invalid("Missing disabled_reason field")
        values = {"disabled": True, "disabled_reason": body["disabled_reason"].strip()}
        view["disabled_reason"] = values["disabled_reason"]
    elif service_id == "force-down" and req.since("2.11"):
        if "forced_down" not in body:
            raise exception.Invalid("Missing forced_down field")
        values = {"forced_down": strutils.bool_from_string(body["forced_down"], strict=True)}
        view["forced_down"] = values["forced_down"]
    else:
        raise ResourceNotFound("Unknown action")
    if "disabled" in values:
        view["status"] = "disabled" if values["disabled"] else "enabled"
    _check_binary(body["binary"])
    req.services.db.write(_update_by_host, body["host"], body["binary"], values)
    return {"service": view}


def update(req: Request, service_id: str) -> dict[str, Any]:
    """From 2.53 on: status, disabled_reason, forced_down of the compute service with this uuid."""
    body = req.json_in
    number = _identity(req, service_id)
    values: dict[str, Any] = {}
    if "status" in body:
        values = {"disabled": body["status"] == "disabled", "disabled_reason": body.get("disabled_reason")}
    if "disabled_reason" in body and body.get("status") != "disabled":
        raise exception.Invalid("Specifying disabled_reason requires that status is 'disabled'.")
    if "forced_down" in body:
        values["forced_down"] = strutils.bool_from_string(body["forced_down"], strict=True)
    if not values:
        raise exception.Invalid("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    service, zones = req.services.db.write(_update_by_id, number, values)
    return {"service": _view(req, service, zones)}


def delete(req: Request, service_id: str) -> None:
    """Forget a service that is no more; a compute host must be empty."""
    req.services.db.write(_delete, _identity(req, service_id))


def _identity(req: Request, service_id: str) -> int | str:
    if req.since("2.53"):
        if not is_uuid(service_id):
            raise exception.Invalid(f"Invalid uuid {service_id}")
        return service_id
    number = units.number(service_id)
    if number is None:
        raise exception.Invalid(f"Invalid service id {service_id}: it must be an integer")
    return number


def _check_binary(binary: str) -> None:
    """Raise Invalid (400) for a service that hosts no servers."""
    if binary != services.COMPUTE:
        raise exception.Invalid(f"Updating a {binary} service is not supported. Only {services.COMPUTE} services can be "
                                "updated.")


def _update_by_host(conn: sa.Connection, host: str, binary: str, values: Mapping[str, Any]) -> None:
    services.update(conn, services.get_by_host(conn, host, binary)["id"], values)


def _update_by_id(conn: sa.Connection, key: int | str, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    service = services.get(conn, key)
    _check_binary(service["binary"])
    return services.update(conn, service["id"], values), aggregates.zones_by_host(conn, [service["host"]])


def _delete(conn: sa.Connection, key: int | str) -> None:
    services.delete(conn, services.get(conn, key)["id"])


def _view(req: Request, service: Mapping[str, Any], zones: Mapping[str, str]) -> dict[str, Any]:
    conf = req.services.conf.compute
    zone = INTERNAL
    if service["binary"] == services.COMPUTE:
        zone = zones.get(service["host"], conf.default_availability_zone)
    view = {"id": service["uuid"] if req.since("2.53") else service["id"], "binary": service["binary"],
            "host": service["host"], "zone": zone, "status": "disabled" if service["disabled"] else "enabled",
            "state": "up" if services.is_up(service, conf.service_down_time) else "down",
            "disabled_reason": service["disabled_reason"], "updated_at": units.isotime_micro(service["last_seen_at"])}
    if req.since("2.11"):
        view["forced_down"] = service["forced_down"]
    return view


_RULE = "os_compute_api:os-services"
_UPDATE = admin(f"{_RULE}:update", "Enable, disable or force down a service.")
ROUTES = [
    Route("GET", "/os-services", index, admin(f"{_RULE}:list", "List services."), query=LIST_QUERY,
          response=LIST),
    Route("PUT", "/os-services/{service_id}", update_legacy, _UPDATE, last="2.52", body=UPDATE,
          response=UPDATED),
    Route("PUT", "/os-services/{service_id}", update, _UPDATE, first="2.53", body=UPDATE,
          response=UPDATED),
    Route("DELETE", "/os-services/{service_id}", delete, admin(f"{_RULE}:delete", "Delete a service."), status=204),
]
