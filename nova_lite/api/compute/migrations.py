"""/os-migrations and /servers/{server_id}/migrations: moves of servers between hosts.

No server can be moved so far, so there are none: lists are empty, and no id is known.
"""
from __future__ import annotations

from typing import Any, NoReturn

from oslo_utils import timeutils

from nova_lite import exception
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import migrations as schema
from nova_lite.api.compute.servers import find
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects import states

_ALL, _OF = "os_compute_api:os-migrations:", "os_compute_api:servers:migrations:"
_UNKNOWN = "Migration %s for instance %s could not be found."
_PATH = "/servers/{server_id}/migrations"
_ONE = _PATH + "/{migration_id}"


def index(req: Request) -> dict[str, Any]:
    """The moves of all servers, or of those of the caller's project."""
    if params.last(req, "project_id") != req.context.project_id:
        req.can(f"{_ALL}index:all_projects")
    if req.since("2.59"):
        pagination.limit(req)
        since, before = params.last(req, "changes-since"), params.last(req, "changes-before")
        if since and before and timeutils.parse_isotime(since) > timeutils.parse_isotime(before):
            raise exception.Invalid("The value of changes-since must be less than or equal to changes-before.")
        marker = pagination.marker(req)
        if marker is not None:
            raise exception.MarkerNotFound(marker=marker)
    return {"migrations": []}


def index_of_server(req: Request, server_id: str) -> dict[str, Any]:
    """The live migrations of a server that are under way."""
    find(req, server_id, f"{_OF}index")
    return {"migrations": []}


def show(req: Request, server_id: str, migration_id: str) -> NoReturn:
    """One of them."""
    find(req, server_id, f"{_OF}show")
    raise exception.NotFound(f"In-progress live migration {migration_id} is not found for server {server_id}.")


def delete(req: Request, server_id: str, migration_id: str) -> NoReturn:
    """Abort one."""
    _check(req, server_id, "delete", states.ABORT_LIVE_MIGRATION)
    raise exception.NotFound(_UNKNOWN % (migration_id, server_id))


def force_complete(req: Request, server_id: str, migration_id: str) -> NoReturn:
    """Let one come to its end, whatever it takes."""
    _check(req, server_id, "force_complete", states.FORCE_COMPLETE)
    raise exception.Invalid(_UNKNOWN % (migration_id, server_id))


def _check(req: Request, server_id: str, rule: str, operation: states.Operation) -> None:
    states.check(operation, find(req, server_id, _OF + rule), may_override_lock=bool(req.context.is_admin))


ROUTES = [
    Route("GET", "/os-migrations", index, f"{_ALL}index", query=schema.LIST_QUERY, response=schema.LIST),
    Route("GET", _PATH, index_of_server, f"{_OF}index", first="2.23", response=schema.SERVER_LIST),
    Route("GET", _ONE, show, f"{_OF}show", first="2.23", response=schema.SERVER_SHOW),
    Route("DELETE", _ONE, delete, f"{_OF}delete", first="2.24", response=schema.NOTHING, status=202),
    Route("POST", _ONE + "/action", force_complete, f"{_OF}force_complete", first="2.22", action="force_complete",
          body=schema.FORCE_COMPLETE, response=schema.NOTHING, status=202),
]
