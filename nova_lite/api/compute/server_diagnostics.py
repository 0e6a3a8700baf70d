"""/servers/{server_id}/diagnostics: what the hypervisor counts of a running guest."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import server_diagnostics as schema
from nova_lite.api.compute.views import server_diagnostics as view
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin


def show(req: Request, instance: Instance) -> dict[str, Any]:
    """Until 2.47 names and numbers as the hypervisor has them, since 2.48 the same form for all hypervisors."""
    found = req.services.compute.get_diagnostics(req.context, instance)
    return view.standard(found) if req.since("2.48") else view.plain(found)


ROUTES = [
    Route("GET", "/servers/{server_id}/diagnostics", show,
          admin("os_compute_api:os-server-diagnostics", "Show the diagnostics of a server."), response=schema.SHOW),
]
