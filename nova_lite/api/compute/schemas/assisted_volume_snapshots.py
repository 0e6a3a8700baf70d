"""Schemas of /os-assisted-volume-snapshots."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.validation import multi

_TEXT: shapes.Json = {"type": "string", "minLength": 1, "pattern": r"^[^\x00]*$"}
_INFO = shapes.closed({"snapshot_id": _TEXT, "type": {"type": "string", "enum": ["qcow2"]}, "new_file": _TEXT}, {"id": _TEXT})
CREATE = shapes.wrapped("snapshot", shapes.closed({"volume_id": _TEXT, "create_info": _INFO}))
CREATED = shapes.wrapped("snapshot", shapes.closed({"id": shapes.MAYBE_STRING, "volumeId": shapes.STRING}))
_QUERY: shapes.Json = {"type": "object", "properties": {"delete_info": multi(p.STRING)}}
DELETE_QUERY = {"2.1": {**_QUERY, "additionalProperties": True}, "2.75": {**_QUERY, "additionalProperties": False}}
