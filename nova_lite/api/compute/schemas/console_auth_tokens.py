"""Schemas of the tokens of consoles."""
from __future__ import annotations

from nova_lite.api.compute.schemas.shapes import INTEGER, MAYBE_INTEGER, MAYBE_STRING, STRING, closed, plus, query, wrapped
from nova_lite.api.openstack import parameters

_CONSOLE = closed({"instance_uuid": parameters.UUID, "host": STRING, "port": INTEGER, "internal_access_path": MAYBE_STRING})
SHOW = {"2.31": wrapped("console", _CONSOLE), "2.99": wrapped("console", plus(_CONSOLE, {}, {"tls_port": MAYBE_INTEGER}))}
QUERY = {"2.31": query({}), "2.99": query({}, strict=True)}
