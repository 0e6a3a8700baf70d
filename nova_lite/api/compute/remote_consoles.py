"""/servers/{server_id}/remote-consoles, and the actions that it replaced in 2.6."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.shapes import STRING, Json, closed, wrapped
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member

_PROTOCOLS = ["vnc", "spice", "rdp", "serial"]
_TYPES = ["novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial"]


def _create(protocols: list[str], types: list[str]) -> Json:
    return wrapped("remote_console", closed({"protocol": {"type": "string", "enum": protocols},
                                             "type": {"type": "string", "enum": types}}))


CREATE = {"2.6": _create(_PROTOCOLS, _TYPES), "2.8": _create([*_PROTOCOLS, "mks"], [*_TYPES, "webmks"]),
          "2.99": _create([*_PROTOCOLS, "mks"], [*_TYPES, "webmks", "spice-direct"])}
CREATED = wrapped("remote_console", closed({"protocol": STRING, "type": STRING, "url": {**STRING, "format": "uri"}}))


def _body(action: str, *types: str) -> Json:
    return wrapped(action, closed({"type": {"type": "string", "enum": list(types)}}))


ACTIONS = {"os-getVNCConsole": _body("os-getVNCConsole", "novnc", "xvpvnc"),
           "os-getSPICEConsole": _body("os-getSPICEConsole", "spice-html5"),
           "os-getSerialConsole": _body("os-getSerialConsole", "serial")}
ACTION_ANSWER = wrapped("console", closed({"type": STRING, "url": {**STRING, "format": "uri"}}))

_RULE = member("os_compute_api:os-remote-consoles", "Open a console of a server.")


def create(req: Request, instance: Instance) -> dict[str, Any]:
    """A URL of a console, which may be used for some minutes."""
    wanted = req.json_in["remote_console"]
    url = _open(req, instance, wanted["protocol"], wanted["type"])
    return {"remote_console": {"protocol": wanted["protocol"], "type": wanted["type"], "url": url}}


def _open(req: Request, instance: Instance, protocol: str, console_type: str) -> str:
    return req.services.compute.get_console(req.context, instance, protocol, console_type)


def _action(action: str, protocol: str) -> Route:
    def handler(req: Request, instance: Instance) -> dict[str, Any]:
        console_type = req.argument["type"]
        return {"console": {"type": console_type, "url": _open(req, instance, protocol, console_type)}}

    handler.__name__ = action.replace("-", "_")
    handler.__doc__ = f"A URL of a {protocol} console."
    return Route("POST", "/servers/{server_id}/action", handler, _RULE, last="2.5", action=action,
                 body=ACTIONS[action], response=ACTION_ANSWER)


ROUTES = [
    Route("POST", "/servers/{server_id}/remote-consoles", create, _RULE, first="2.6", body=CREATE,
          response=CREATED),
    _action("os-getVNCConsole", "vnc"),
    _action("os-getSPICEConsole", "spice"),
    _action("os-getSerialConsole", "serial"),
]
