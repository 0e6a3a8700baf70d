"""/os-console-auth-tokens/{console_token}: the connection of a console token."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute.schemas.shapes import (
    INTEGER,
    MAYBE_INTEGER,
    MAYBE_STRING,
    NO_BODY,
    STRING,
    closed,
    plus,
    query,
    wrapped,
)
from nova_lite.api.openstack import parameters
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.console import SPICE_DIRECT
from nova_lite.policies.base import admin

_CONSOLE = closed({"instance_uuid": parameters.UUID, "host": STRING, "port": INTEGER, "internal_access_path": MAYBE_STRING})
SHOW = {"2.31": wrapped("console", _CONSOLE), "2.99": wrapped("console", plus(_CONSOLE, {}, {"tls_port": MAYBE_INTEGER}))}
QUERY = {"2.31": query({}), "2.99": query({}, strict=True)}

_RULE = admin("os_compute_api:os-console-auth-tokens", "Show the connection that a console token stands for.")
_PATH = "/os-console-auth-tokens/{console_token}"


def show(req: Request, console_token: str) -> dict[str, Any]:
    """Host and port, since 2.99 of a spice-direct console the port for TLS too."""
    found = req.services.compute.get_console_auth_token(req.context, console_token)
    answer = {"instance_uuid": found.instance_uuid, "host": found.host, "port": found.port,
              "internal_access_path": found.internal_access_path}
    if req.since("2.99") and found.console_type == SPICE_DIRECT:
        answer["tls_port"] = found.tls_port
    return {"console": answer}


def refuse(_req: Request, console_token: str) -> None:
    """Below 2.31 only tokens of RDP consoles could be looked up, and there are no such consoles any more."""
    raise exception.Invalid("Only tokens of rdp-html5 consoles could be shown before microversion 2.31, and those are no more.")


ROUTES = [Route("GET", _PATH, refuse, _RULE, last="2.30", response=NO_BODY),
          Route("GET", _PATH, show, _RULE, first="2.31", query=QUERY, response=SHOW)]
