"""/os-simple-tenant-usage: how many hours the servers of a project ran, and what they had meanwhile."""
from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import simple_tenant_usage as schema
from nova_lite.api.compute.views import simple_tenant_usage as view
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import usage
from nova_lite.policies.base import admin, reader

_FORMS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")
PATH = "/os-simple-tenant-usage"


@dataclass
class Period:
    """From ``begin`` to ``end``, and the time of the request."""

    begin: datetime.datetime
    end: datetime.datetime
    now: datetime.datetime


def index(req: Request) -> dict[str, Any]:
    """All projects, with their servers if ``detailed=1``; from 2.40 on in pages of so many servers."""
    period = _period(req)
    found = _servers(req, period, None)
    detailed = _first(req, "detailed") == "1"
    by_project: dict[str, list[dict[str, Any]]] = {}
    for server in found:
        by_project.setdefault(server["project_id"], []).append(server)
    return {"tenant_usages": [view.project(period, rows, detailed) for rows in by_project.values()],
            **_links(req, "tenant_usages", found)}


def _project(req: Request, project_id: str) -> dict[str, Any]:
    return {"project_id": project_id, "user_id": req.context.user_id}


def show(req: Request, project_id: str) -> dict[str, Any]:
    """One project with its servers; an empty answer for a project without servers."""
    period = _period(req)
    found = _servers(req, period, project_id)
    return {"tenant_usage": view.project(period, found, True) if found else {},
            **_links(req, "tenant_usage", found, project_id)}


def _servers(req: Request, period: Period, project_id: str | None) -> list[dict[str, Any]]:
    marker, limit = None, req.services.conf.api.max_limit
    if req.since("2.40"):
        marker, limit = params.last(req, "marker"), pagination.limit(req)
    with req.services.db.read() as conn:
        return usage.servers(conn, period.begin, period.end, project_id, limit, marker)


def _links(req: Request, name: str, found: list[dict[str, Any]], *path: str) -> dict[str, Any]:
    if not req.since("2.40"):
        return {}
    return pagination.next_links(req, name, [server["uuid"] for server in found], "os-simple-tenant-usage", *path)


def _period(req: Request) -> Period:
    now = units.utcnow()
    given = [_time(_first(req, name)) for name in ("start", "end")]
    begin, end = (time or now for time in given)
    if any(given) and begin >= end:
        raise exception.Invalid("Invalid start time: it must be before the end time.")
    return Period(begin, min(end, now), now)


def _first(req: Request, name: str) -> str:
    return (req.params_in.get(name) or [""])[0]


def _time(text: str) -> datetime.datetime | None:
    for form in _FORMS if text else ():
        try:
            return datetime.datetime.strptime(text, form)
        except ValueError:
            continue
    if text:
        raise exception.Invalid(f"Invalid datetime '{text[:100]}': the form is YYYY-MM-DDThh:mm:ss.ffffff, in UTC.")
    return None


_RULE = "os_compute_api:os-simple-tenant-usage"
ROUTES = [
    Route("GET", PATH, index, admin(f"{_RULE}:list", "List the usage of all projects."), query=schema.LIST_QUERY,
          response=schema.LIST),
    Route("GET", PATH + "/{project_id}", show, reader(f"{_RULE}:show", "Show the usage of a project."), target=_project,
          query=schema.SHOW_QUERY, response=schema.SHOW),
]
