"""/servers/{server_id}/remote-consoles, and the actions that it replaced in 2.6."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import remote_consoles as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member

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
                 body=schema.ACTIONS[action], response=schema.ACTION_ANSWER)


ROUTES = [
    Route("POST", "/servers/{server_id}/remote-consoles", create, _RULE, first="2.6", body=schema.CREATE,
          response=schema.CREATED),
    _action("os-getVNCConsole", "vnc"),
    _action("os-getSPICEConsole", "spice"),
    _action("os-getSerialConsole", "serial"),
]
