"""Schema of /servers/{server_id}/topology."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_NUMBERS = {"type": "array", "items": shapes.INTEGER}
_NODE = shapes.closed({"memory_mb": shapes.INTEGER, "siblings": {"type": "array", "items": _NUMBERS}, "vcpu_set": _NUMBERS},
                      {"cpu_pinning": {"type": "object", "additionalProperties": shapes.INTEGER}, "host_node": shapes.INTEGER})
SHOW = shapes.closed({"nodes": {"type": "array", "items": _NODE}, "pagesize_kb": shapes.MAYBE_INTEGER})
