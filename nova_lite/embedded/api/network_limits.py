"""The quotas of the embedded Network API, and the unsupported features: each with a reason that clients show to users."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from nova_lite import exception
from nova_lite.db import networks, security_groups
from nova_lite.db.core import Database
from nova_lite.embedded.api.wsgi import Request, Route

_SUBNETS = "a network has one subnet, which is made, and goes, with it"
_QUOTAS = "the quotas of Network are fixed"
_ONE = "/v2.0/quotas/{project_id}"
# (what a client asks for, why there is none)
_REFUSED = (
    ("POST", "/v2.0/subnets", _SUBNETS), ("PUT", "/v2.0/subnets/{subnet_id}", _SUBNETS),
    ("DELETE", "/v2.0/subnets/{subnet_id}", _SUBNETS),
    ("POST", "/v2.0/floatingips", "there are no floating IPs: no network is external"),
    ("POST", "/v2.0/routers", "there are no routers: the hosts route all networks"),
    ("PUT", _ONE, _QUOTAS), ("DELETE", _ONE, _QUOTAS))


def routes(db: Database) -> list[Route]:
    """What the application serves of it."""
    quotas = _Quotas(db)
    return [Route("GET", "/v2.0/quotas", lambda req: {"quotas": []}),      # of projects that have others than the defaults
            Route("GET", _ONE, quotas.show), Route("GET", f"{_ONE}/default", quotas.show),
            Route("GET", f"{_ONE}/details", quotas.details), Route("GET", f"{_ONE}/details.json", quotas.details),
            Route("GET", "/v2.0/floatingips", lambda req: {"floatingips": []}),
            Route("GET", "/v2.0/floatingips/{one}", _none("Floating IP")),
            Route("PUT", "/v2.0/floatingips/{one}", _none("Floating IP")),
            Route("DELETE", "/v2.0/floatingips/{one}", _none("Floating IP")),
            Route("GET", "/v2.0/routers", lambda req: {"routers": []}),
            Route("GET", "/v2.0/routers/{one}", _none("Router")),
            *(Route(method, path, _refuse(reason)) for method, path, reason in _REFUSED)]


def _refuse(reason: str) -> Callable[..., NoReturn]:
    def handler(req: Request, **_names: str) -> NoReturn:
        raise exception.InvalidInput(reason=reason)
    return handler


def _none(kind: str) -> Callable[..., NoReturn]:
    def handler(req: Request, one: str) -> NoReturn:
        raise exception.NotFound(f"{kind} {one} could not be found.")
    return handler


class _Quotas:
    def __init__(self, db: Database) -> None:
        self._db = db

    def show(self, req: Request, project_id: str) -> dict[str, Any]:
        """GET /v2.0/quotas/{project}"""
        return {"quota": {name: limit for name, (limit, _) in self._known(req, project_id).items()}}

    def details(self, req: Request, project_id: str) -> dict[str, Any]:
        """GET /v2.0/quotas/{project}/details: what is used, too"""
        return {"quota": {name: {"limit": limit, "used": used, "reserved": 0}
                          for name, (limit, used) in self._known(req, project_id).items()}}

    def _known(self, req: Request, project_id: str) -> dict[str, tuple[int, int]]:
        """(limit, used) by the name that Neutron has for it."""
        if project_id != req.token.project_id and not req.is_admin:
            raise exception.Forbidden("Only an admin may see the quotas of another project.")
        with self._db.read() as c:
            own, ports = networks.count_networks(c, project_id), networks.count_ports(c, project_id)
            groups, rules = security_groups.count_groups(c, project_id), security_groups.count_rules(c, project_id)
        return {"network": (networks.MAX_NETWORKS, own), "subnet": (networks.MAX_NETWORKS, own),
                "port": (networks.MAX_PORTS, ports), "security_group": (security_groups.MAX_GROUPS, groups),
                "security_group_rule": (security_groups.MAX_RULES, rules),
                **dict.fromkeys(("floatingip", "router", "subnetpool", "rbac_policy"), (0, 0))}
