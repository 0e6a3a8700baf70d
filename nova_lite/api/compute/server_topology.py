"""/servers/{server_id}/topology: the NUMA nodes of a guest (since 2.78).

No guest has a NUMA topology of its own so far, so the list is empty, as in Nova for such guests.
"""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import server_topology as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance

_RULE = "compute:server:topology:index"


def show(_req: Request, instance: Instance) -> dict[str, Any]:
    """The nodes of a guest: none, for guests without a topology."""
    return {"nodes": [], "pagesize_kb": None}


ROUTES = [Route("GET", "/servers/{server_id}/topology", show, _RULE, first="2.78", response=schema.SHOW)]
