"""What was done to a server, and the steps of it."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nova_lite import units
from nova_lite.api.compute.views.servers import host_id
from nova_lite.objects.action import Action

if TYPE_CHECKING:
    from nova_lite.api.openstack.wsgi import Request


def action(req: Request, record: Action) -> dict[str, Any]:
    """One action, without its events."""
    shown = {"action": record.action, "instance_uuid": record.instance_uuid, "request_id": record.request_id,
             "user_id": record.user_id, "project_id": record.project_id,
             "start_time": units.isotime_micro(record.start_time), "message": record.message}
    if req.since("2.58"):
        shown["updated_at"] = units.isotime_micro(record.updated_at or record.start_time)
    return shown


def event(req: Request, row: Mapping[str, Any], project_id: str, may_see_traceback: bool,
          may_see_details: bool) -> dict[str, Any]:
    """One step; ``project_id`` is that of the server."""
    shown = {"event": row["event"], "start_time": units.isotime_micro(row["start_time"]),
             "finish_time": units.isotime_micro(row["finish_time"]), "result": row["result"]}
    if may_see_traceback:
        shown["traceback"] = row["traceback"]
    if req.since("2.62"):
        if may_see_traceback:
            shown["host"] = row["host"]
        shown["hostId"] = host_id(project_id, row["host"])
    if req.since("2.84") and may_see_details:
        shown["details"] = row["details"]
    return shown
