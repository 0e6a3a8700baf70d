"""Moves of servers, as lists and single answers show them."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects import migration as objects
from nova_lite.objects.migration import Migration
from nova_lite.units import isotime_micro

HOSTS = ("source_compute", "source_node", "dest_compute", "dest_node", "dest_host")
_IN_PROGRESS = (objects.QUEUED, objects.PREPARING, objects.RUNNING, objects.POST_MIGRATING)
"""Statuses of live migrations that have a link: they can be looked at, and ended."""


def of_any(req: Request, move: Migration, with_hosts: bool) -> dict[str, Any]:
    """An entry of /os-migrations. Without the right to see hosts they are null."""
    shown = {**_common(req, move, with_hosts), "instance_uuid": move.instance_uuid,
             "old_instance_type_id": move.old_flavor.id if move.old_flavor else None,
             "new_instance_type_id": move.new_flavor.id if move.new_flavor else None}
    if req.since("2.23"):
        shown["migration_type"] = move.migration_type
        if move.migration_type == objects.LIVE_MIGRATION and move.status in _IN_PROGRESS:
            path = ("servers", move.instance_uuid, "migrations", str(move.id))
            shown["links"] = [{"rel": rel, "href": req.link(rel, *path)} for rel in ("self", "bookmark")]
    return shown


def of_server(req: Request, move: Migration, with_hosts: bool) -> dict[str, Any]:
    """A live migration under way, as /servers/{id}/migrations shows it."""
    sizes = {f"{what}_{part}_bytes": getattr(move, f"{what}_{part}")
             for what in ("memory", "disk") for part in ("total", "processed", "remaining")}
    return {**_common(req, move, with_hosts), "server_uuid": move.instance_uuid, **sizes}


def _common(req: Request, move: Migration, with_hosts: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": move.id, "status": move.status, "created_at": isotime_micro(move.created_at),
                             "updated_at": isotime_micro(move.updated_at)}
    shown |= {name: getattr(move, name) if with_hosts else None for name in HOSTS}
    if req.since("2.59"):
        shown["uuid"] = move.uuid
    if req.since("2.80"):
        shown |= {"user_id": move.user_id, "project_id": move.project_id}
    return shown
