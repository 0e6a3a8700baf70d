"""/os-server-external-events: events of Neutron, Cinder and other services about servers."""
from __future__ import annotations

import webob

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policies.base import service

_NAMES = ["network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"]
_SINCE = {"2.51": "volume-extended", "2.76": "power-update", "2.82": "accelerator-request-bound", "2.93": "volume-reimaged"}
_STATUS = {"enum": ["failed", "completed", "in-progress"]}
_TAG = {"type": "string", "maxLength": 255}


def _create(names: list[str]) -> shapes.Json:
    event = shapes.closed({"server_uuid": parameters.UUID, "name": {"enum": names}}, {"status": _STATUS, "tag": _TAG})
    return shapes.wrapped("events", {"type": "array", "minItems": 1, "items": event})


def _versions() -> dict[str, shapes.Json]:
    names = list(_NAMES)
    made = {"2.1": _create(names)}
    for version, name in _SINCE.items():
        names = [*names, name]
        made[version] = _create(names)
    return made


CREATE = _versions()
EVENTS = shapes.listing("events", shapes.closed(
    {"server_uuid": parameters.UUID, "name": shapes.STRING, "status": _STATUS, "code": shapes.INTEGER}, {"tag": _TAG}))

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
          service("os_compute_api:os-server-external-events:create", "Report events about servers."), body=CREATE,
          response=EVENTS, also=207),
]
