"""Schema of os-migrateLive."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack import parameters as p

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
