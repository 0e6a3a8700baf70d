"""/servers/{server_id}/topology: the NUMA nodes of a guest (since 2.78).

No guest has a NUMA topology of its own so far, so the list is empty, as in Nova for such guests.
"""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import server_topology as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, reader


def show(_req: Request, instance: Instance) -> dict[str, Any]:
    """The nodes of a guest: none, for guests without a topology."""
    return {"nodes": [], "pagesize_kb": None}


ROUTES = [
    Route("GET", "/servers/{server_id}/topology", show,
          reader("compute:server:topology:index", "Show the NUMA topology of a server."), first="2.78", response=schema.SHOW),
]
RULES = [admin("compute:server:topology:host:index", "See the host's side of a server's NUMA topology.",
               "GET /servers/{server_id}/topology")]
