"""Schemas of /os-volumes and /os-snapshots."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_ATTACHMENT = shapes.closed(dict.fromkeys(("id", "volumeId", "serverId"), shapes.STRING), {"device": shapes.STRING})
_VOLUME = shapes.closed({
    "id": shapes.STRING, "status": shapes.STRING, "size": shapes.INTEGER, "availabilityZone": shapes.MAYBE_STRING,
    "createdAt": shapes.STRING, "displayName": shapes.MAYBE_STRING, "displayDescription": shapes.MAYBE_STRING,
    "volumeType": shapes.MAYBE_STRING, "snapshotId": shapes.MAYBE_STRING, "metadata": shapes.TEXTS,
    "attachments": {"type": "array", "maxItems": 1, "items": {"anyOf": [_ATTACHMENT, shapes.closed({})]}}})
LIST, SHOW = shapes.listing("volumes", _VOLUME), shapes.wrapped("volume", _VOLUME)
LIST_QUERY = shapes.query({"limit": shapes.PAGE["limit"], "offset": shapes.PAGE["limit"]})
NOTHING = shapes.NO_BODY
CREATE = shapes.wrapped("volume", shapes.closed(
    {"size": {"type": ["integer", "string"], "pattern": "^[0-9]+$", "minimum": 1, "maximum": 0x7FFFFFFF}},
    {"volume_type": shapes.STRING, "metadata": {"type": "object"}, "snapshot_id": shapes.STRING,
     "availability_zone": shapes.STRING, "display_name": shapes.STRING, "display_description": shapes.STRING}))

_SNAPSHOT = shapes.closed({**dict.fromkeys(("id", "volumeId", "status", "createdAt"), shapes.STRING), "size": shapes.INTEGER,
                           "displayName": shapes.MAYBE_STRING, "displayDescription": shapes.MAYBE_STRING})
SNAPSHOTS, SNAPSHOT = shapes.listing("snapshots", _SNAPSHOT), shapes.wrapped("snapshot", _SNAPSHOT)
CREATE_SNAPSHOT = shapes.wrapped("snapshot", shapes.closed(
    {"volume_id": shapes.STRING},
    {"force": parameters.BOOLEAN, "display_name": shapes.STRING, "display_description": shapes.STRING}))
