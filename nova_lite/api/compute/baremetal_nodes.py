"""/os-baremetal-nodes (until 2.35): Ironic's nodes, which this service never has.

Nova tells no changes (400) either, and answers 501 where there is no Ironic.
"""
from __future__ import annotations

from typing import NoReturn

from nova_lite import exception
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policies.base import admin

_NODE = shapes.closed({**dict.fromkeys(("id", "host"), shapes.STRING), "task_state": shapes.MAYBE_STRING,
                       **dict.fromkeys(("cpus", "memory_mb", "disk_gb"), {}), "interfaces": {"type": "array"}})
LIST = shapes.listing("nodes", _NODE)
SHOW = shapes.wrapped("node", shapes.plus(_NODE, {"instance_uuid": shapes.MAYBE_STRING}))
FAULT = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": shapes.closed(
    {"code": shapes.INTEGER, "message": shapes.STRING})}

LAST = "2.35"


class IronicUnavailable(exception.NovaLiteError):
    msg_fmt = "Ironic client unavailable: there are no bare metal nodes."
    code = 501


def index(req: Request) -> NoReturn:
    """The nodes."""
    raise IronicUnavailable()


def show(req: Request, node_id: str) -> NoReturn:
    """One node."""
    raise IronicUnavailable()


def create(req: Request) -> NoReturn:
    """Refused: Ironic's own API does that."""
    _refuse("node-create")


def delete(req: Request, node_id: str) -> NoReturn:
    """Refused, too."""
    _refuse("node-delete")


def add_interface(req: Request, node_id: str) -> NoReturn:
    """Refused, too."""
    _refuse("port-create")


def remove_interface(req: Request, node_id: str) -> NoReturn:
    """Refused, too."""
    _refuse("port-delete")


def _refuse(command: str) -> NoReturn:
    raise exception.Invalid(f"Use the Bare Metal service itself for this: ironic {command}.")


_RULE = "os_compute_api:os-baremetal-nodes"
_ALL, _ONE = "/os-baremetal-nodes", "/os-baremetal-nodes/{node_id}"
ROUTES = [
    Route("GET", _ALL, index, admin(f"{_RULE}:list", "List bare metal nodes."), last=LAST, response=LIST),
    Route("POST", _ALL, create, None, last=LAST, status=400, response=FAULT),
    Route("GET", _ONE, show, admin(f"{_RULE}:show", "Show a bare metal node."), last=LAST, response=SHOW),
    Route("DELETE", _ONE, delete, None, last=LAST, status=400, response=FAULT),
    Route("POST", f"{_ONE}/action", add_interface, None, action="add_interface", last=LAST, status=400, response=FAULT),
    Route("POST", f"{_ONE}/action", remove_interface, None, action="remove_interface", last=LAST, status=400,
          response=FAULT),
]
