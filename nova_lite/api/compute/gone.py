"""Routes that Nova has removed: they answer 410 Gone at every microversion."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from nova_lite import exception
from nova_lite.api.compute.schemas import server_actions, shapes
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request

# release of Nova that removed them -> path -> methods
_REMOVED: dict[str, dict[str, str]] = {
    "16.0.0": {"/os-certificates": "POST", "/os-certificates/{certificate_id}": "GET", "/os-cloudpipe": "GET POST",
               "/os-cloudpipe/{project_id}": "PUT"},
    "18.0.0": {"/os-fixed-ips/{fixed_ip}": "GET", "/os-floating-ip-dns": "GET", "/os-floating-ip-dns/{domain}": "PUT DELETE",
               "/os-floating-ip-dns/{domain}/entries/{entry}": "GET PUT DELETE", "/os-floating-ips-bulk": "GET POST",
               "/os-floating-ips-bulk/{host}": "GET PUT", "/os-fping": "GET", "/os-fping/{server_id}": "GET",
               "/servers/{server_id}/os-virtual-interfaces": "GET"},
    "20.0.0": {"/os-cells": "GET POST", "/os-cells/capacities": "GET", "/os-cells/detail": "GET", "/os-cells/info": "GET",
               "/os-cells/sync_instances": "POST", "/os-cells/{cell}": "GET PUT DELETE", "/os-cells/{cell}/capacities": "GET"},
    "21.0.0": {"/os-networks": "POST", "/os-networks/add": "POST", "/os-networks/{network_id}": "DELETE",
               "/os-security-group-default-rules": "GET POST", "/os-security-group-default-rules/{rule_id}": "GET DELETE",
               "/os-tenant-networks": "POST", "/os-tenant-networks/{network_id}": "DELETE",
               "/servers/{server_id}/consoles": "GET POST", "/servers/{server_id}/consoles/{console_id}": "GET DELETE"},
    "22.0.0": {"/os-agents": "GET POST", "/os-agents/{agent_id}": "PUT DELETE"}}
# path, action, release
_REMOVED_ACTIONS = (
    ("/os-fixed-ips/{fixed_ip}/action", "reserve", "18.0.0"), ("/os-fixed-ips/{fixed_ip}/action", "unreserve", "18.0.0"),
    ("/os-networks/{network_id}/action", "associate_host", "18.0.0"),
    ("/os-networks/{network_id}/action", "disassociate_host", "18.0.0"),
    ("/os-networks/{network_id}/action", "disassociate_project", "18.0.0"),
    ("/os-networks/{network_id}/action", "disassociate", "21.0.0"), ("/servers/{server_id}/action", "resetNetwork", "23.0.0"))
_FAULT = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": shapes.closed(
    {"code": shapes.INTEGER, "message": shapes.STRING})}


def _handler(name: str, release: str) -> Callable[..., NoReturn]:
    def gone(_req: Request, **_parameters: Any) -> NoReturn:
        raise exception.Gone

    gone.__name__ = name
    gone.__doc__ = f"Gone since Nova {release}."
    return gone


def _rows() -> Iterator[Route]:
    for release, paths in _REMOVED.items():
        for path, methods in paths.items():
            for method in methods.split():
                name = f"{method.lower()}{path.translate({ord('/'): '.', ord('{'): None, ord('}'): None})}"
                yield Route(method, path, _handler(name, release), None, status=410, response=_FAULT, server=None)
    for path, action, release in _REMOVED_ACTIONS:
        yield Route("POST", path, _handler(action, release), None, action=action, status=410, response=_FAULT, server=None)


def rdp_console(_req: Request, server_id: str) -> NoReturn:
    """A console of Hyper-V: always refused, and unknown from 2.6 on."""
    raise exception.ConsoleTypeUnavailable(console_type="rdp-html5")


ROUTES = [*_rows(), Route("POST", "/servers/{server_id}/action", rdp_console, None, action="os-getRDPConsole", last="2.5",
                          body=server_actions.no_argument("os-getRDPConsole"), status=400, response=_FAULT,
                          server=None)]
