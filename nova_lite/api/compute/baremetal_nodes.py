"""/os-baremetal-nodes (until 2.35): Ironic's nodes, which this service never has.

Nova tells no changes (400) either, and answers 501 where there is no Ironic.
"""
from __future__ import annotations

from typing import NoReturn

from nova_lite import exception
from nova_lite.api.compute.schemas import baremetal_nodes as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.policies.base import admin

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
    Route("GET", _ALL, index, admin(f"{_RULE}:list", "List bare metal nodes."), last=LAST, response=schema.LIST),
    Route("POST", _ALL, create, None, last=LAST, status=400, response=schema.FAULT),
    Route("GET", _ONE, show, admin(f"{_RULE}:show", "Show a bare metal node."), last=LAST, response=schema.SHOW),
    Route("DELETE", _ONE, delete, None, last=LAST, status=400, response=schema.FAULT),
    Route("POST", f"{_ONE}/action", add_interface, None, action="add_interface", last=LAST, status=400, response=schema.FAULT),
    Route("POST", f"{_ONE}/action", remove_interface, None, action="remove_interface", last=LAST, status=400,
          response=schema.FAULT),
]
