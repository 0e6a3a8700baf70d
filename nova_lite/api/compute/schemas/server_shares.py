"""Schemas of /servers/{server_id}/shares."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters as p

Json = shapes.Json
TAG: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]*$"}
CREATE = shapes.wrapped("share", shapes.closed({"share_id": p.UUID}, {"tag": TAG}))
NO_QUERY: Json = {"type": "object", "properties": {}, "additionalProperties": False}
_STATUS: Json = {"type": "string", "enum": ["active", "inactive", "attaching", "detaching", "error"]}
_BRIEF: Json = {"share_id": p.UUID, "status": _STATUS, "tag": TAG}
LIST = shapes.listing("shares", shapes.closed(_BRIEF))
SHARE = shapes.wrapped("share", shapes.closed(_BRIEF, {"uuid": p.UUID, "export_location": shapes.MAYBE_STRING}))
