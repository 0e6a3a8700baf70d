"""POST /servers/{server_id}/action: os-migrateLive."""
from __future__ import annotations

from typing import Any

from oslo_utils import strutils

from nova_lite import exception
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, manager

Json = dict[str, Any]
_HOST: Json = {**p.HOST, "type": ["string", "null"]}
_AUTO: Json = {"enum": [*p.BOOLEAN["enum"], "auto"]}
_COMMON: Json = {"host": _HOST, "block_migration": _AUTO}


def _body(properties: Json, *required: str) -> Json:
    argument = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "object", "properties": {"os-migrateLive": argument}, "required": ["os-migrateLive"],
            "additionalProperties": False}


MIGRATE_LIVE = {
    "2.1": _body({"host": _HOST, "block_migration": p.BOOLEAN, "disk_over_commit": p.BOOLEAN}, "host", "block_migration",
                 "disk_over_commit"),
    "2.25": _body(_COMMON, "host", "block_migration"),
    "2.30": _body({**_COMMON, "force": p.BOOLEAN}, "host", "block_migration"),
    "2.68": _body(_COMMON, "host", "block_migration")}

PATH = "/servers/{server_id}/action"
_RULE = "os_compute_api:os-migrate-server:migrate_live"
_TO_HOST = admin(f"{_RULE}:host", "Migrate a running server to a named host.",
                 "POST /servers/{server_id}/action (os-migrateLive)")


def migrate_live(req: Request, instance: Instance) -> None:
    """Move a running server. Until 2.33 the answer waits for the checks; until 2.29 the filters do not see a named host."""
    asked = req.argument
    host, block, over_commit = asked["host"], asked["block_migration"], asked.get("disk_over_commit")
    if host is not None:
        req.can(_TO_HOST, instance)
    forced = _true(asked.get("force", False))
    if forced and not host:
        raise exception.Invalid("force needs the host that the server is forced onto")
    force = host is not None and (forced or not req.since("2.30"))
    req.services.compute.live_migrate(req.context, instance, host, None if block == "auto" else _true(block),
                                      None if over_commit is None else _true(over_commit), force,
                                      wait=not req.since("2.34"))


def _true(value: object) -> bool:
    return bool(strutils.bool_from_string(value, strict=True))


ROUTES = [
    Route("POST", PATH, migrate_live, manager(_RULE, "Migrate a running server without naming a host."),
          action="os-migrateLive", body=MIGRATE_LIVE, status=202),
]
RULES = [_TO_HOST]
