"""Schemas of /os-baremetal-nodes."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_NODE = shapes.closed({**dict.fromkeys(("id", "host"), shapes.STRING), "task_state": shapes.MAYBE_STRING,
                       **dict.fromkeys(("cpus", "memory_mb", "disk_gb"), {}), "interfaces": {"type": "array"}})
LIST = shapes.listing("nodes", _NODE)
SHOW = shapes.wrapped("node", shapes.plus(_NODE, {"instance_uuid": shapes.MAYBE_STRING}))
FAULT = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": shapes.closed(
    {"code": shapes.INTEGER, "message": shapes.STRING})}
