"""/os-migrations: all moves of servers; /servers/{server_id}/migrations: the open live migrations of a server."""
from __future__ import annotations

from typing import Any

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import migrations as schema
from nova_lite.api.compute.views import migrations as view
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, manager

_ALL, _OF = "os_compute_api:os-migrations:", "os_compute_api:servers:migrations:"
_PATH = "/servers/{server_id}/migrations"
_ONE = _PATH + "/{migration_id}"
_ALL_PROJECTS = admin(f"{_ALL}index:all_projects", "List the migrations of all projects.", "GET /os-migrations")
_HOSTS = admin(f"{_ALL}index:host", "See the hosts of migrations.", "GET /os-migrations")
_HOSTS_OF = admin(f"{_OF}index:host", "See the hosts of a server's live migrations.", f"GET {_PATH}")


def index(req: Request) -> dict[str, Any]:
    """The moves of all servers, or of those of the caller's project."""
    project = params.last(req, "project_id")
    if project != req.context.project_id:
        req.can(_ALL_PROJECTS)
    filters = {name: value for name in ("instance_uuid", "source_compute", "status", "migration_type")
               if (value := params.last(req, name)) is not None}
    filters |= {name: value for name in ("user_id", "project_id")
                if req.since("2.80") and (value := params.last(req, name)) is not None}
    with_hosts = req.can(_HOSTS, fatal=False)
    page: dict[str, Any] = {"host": params.last(req, "host") if with_hosts else None}
    if req.since("2.59"):
        page |= _page(req)
    found = [] if page.get("limit") == 0 else req.services.compute.list_migrations(filters, **page)
    shown: dict[str, Any] = {"migrations": [view.of_any(req, move, with_hosts) for move in found]}
    if req.since("2.59"):
        shown |= pagination.next_links(req, "migrations", [move.uuid for move in found], "os-migrations")
    return shown


def _page(req: Request) -> dict[str, Any]:
    since, before = params.last(req, "changes-since"), params.last(req, "changes-before")
    times = [None if not text else units.parse_time(text) for text in (since, before)]
    if times[0] and times[1] and times[0] > times[1]:
        raise exception.Invalid("The value of changes-since must be less than or equal to changes-before.")
    return {"limit": pagination.limit(req), "marker": pagination.marker(req), "changes_since": times[0],
            "changes_before": times[1] if req.since("2.66") else None}


def index_of_server(req: Request, instance: Instance) -> dict[str, Any]:
    """The live migrations of a server that are under way."""
    with_hosts = req.can(_HOSTS_OF, fatal=False)
    found = req.services.compute.live_migrations_under_way(instance)
    return {"migrations": [view.of_server(req, move, with_hosts) for move in found]}


def show(req: Request, instance: Instance, migration_id: str) -> dict[str, Any]:
    """One of them."""
    for move in req.services.compute.live_migrations_under_way(instance):
        if str(move.id) == migration_id:
            return {"migration": view.of_server(req, move, True)}
    raise exception.NotFound(f"In-progress live migration {migration_id} is not found for server {instance.uuid}.")


def delete(req: Request, instance: Instance, migration_id: str) -> None:
    """Abort a live migration. One that has not begun to copy can be aborted from 2.65 on."""
    req.services.compute.abort_live_migration(req.context, instance, migration_id, req.since("2.65"))


def force_complete(req: Request, instance: Instance, migration_id: str) -> None:
    """Complete a live migration, even if the guest has to be stopped for it."""
    req.services.compute.force_complete_live_migration(req.context, instance, migration_id)


ROUTES = [
    Route("GET", "/os-migrations", index, manager(f"{_ALL}index", "List the migrations of a project, without hosts."),
          query=schema.LIST_QUERY, response=schema.LIST),
    Route("GET", _PATH, index_of_server, manager(f"{_OF}index", "List the live migrations of a server, without hosts."),
          first="2.23", response=schema.SERVER_LIST),
    Route("GET", _ONE, show, admin(f"{_OF}show", "Show a live migration of a server."), first="2.23",
          response=schema.SERVER_SHOW),
    Route("DELETE", _ONE, delete, manager(f"{_OF}delete", "Abort a live migration."), first="2.24", response=schema.NOTHING,
          status=202),
    Route("POST", _ONE + "/action", force_complete, manager(f"{_OF}force_complete", "Force a live migration to complete."),
          first="2.22", action="force_complete", body=schema.FORCE_COMPLETE, response=schema.NOTHING, status=202),
]
RULES = [_ALL_PROJECTS, _HOSTS, _HOSTS_OF]
