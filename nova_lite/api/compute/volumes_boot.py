"""/os-volumes_boot: another name of /servers, for clients of before 2015 (until 2.102)."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from nova_lite.api.compute import servers
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request


def _handler(route: Route) -> Callable[..., Any]:
    def handler(req: Request, **parameters: str) -> Any:
        return route.handler(req, **parameters)

    handler.__name__ = route.handler.__name__
    handler.__doc__ = route.handler.__doc__
    return handler


def _rows() -> Iterator[Route]:
    for route in servers.ROUTES:
        if route.path in ("/servers", "/servers/detail", "/servers/{server_id}"):
            yield replace(route, path=route.path.replace("/servers", "/os-volumes_boot"), handler=_handler(route), last="2.102")


ROUTES = list(_rows())
