"""/servers/{server_id}/topology: the NUMA nodes of a guest (since 2.78).

No guest has a NUMA topology of its own so far, so the list is empty, as in Nova for such guests.
"""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, reader

_NUMBERS = {"type": "array", "items": shapes.INTEGER}
_NODE = shapes.closed({"memory_mb": shapes.INTEGER, "siblings": {"type": "array", "items": _NUMBERS}, "vcpu_set": _NUMBERS},
                      {"cpu_pinning": {"type": "object", "additionalProperties": shapes.INTEGER}, "host_node": shapes.INTEGER})
SHOW = shapes.closed({"nodes": {"type": "array", "items": _NODE}, "pagesize_kb": shapes.MAYBE_INTEGER})


def show(_req: Request, instance: Instance) -> dict[str, Any]:
    """The nodes of a guest: none, for guests without a topology."""
    return {"nodes": [], "pagesize_kb": None}


ROUTES = [
    Route("GET", "/servers/{server_id}/topology", show,
          reader("compute:server:topology:index", "Show the NUMA topology of a server."), first="2.78", response=SHOW),
]
RULES = [admin("compute:server:topology:host:index", "See the host's side of a server's NUMA topology.",
               "GET /servers/{server_id}/topology")]
