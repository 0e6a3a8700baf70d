"""/os-server-external-events: what Neutron, Cinder and others tell of servers."""
from __future__ import annotations

import webob

from nova_lite.api.compute.schemas import server_external_events as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policies.base import service

OK = 200


def create(req: Request) -> webob.Response:
    """Take events; 207 when some were not taken, each answer saying why by its code."""
    events = req.json_in["events"]
    codes = req.services.compute.external_events(req.context, events)
    answers = [{**event, "status": "completed" if code == OK else "failed", "code": code}
               for event, code in zip(events, codes, strict=True)]
    return webob.Response(status=OK if all(code == OK for code in codes) else 207, json_body={"events": answers})


ROUTES = [
    Route("POST", "/os-server-external-events", create,
          service("os_compute_api:os-server-external-events:create", "Report events about servers."), body=schema.CREATE,
          response=schema.EVENTS, also=207),
]
