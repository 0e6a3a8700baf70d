"""Schemas of flavor access."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_PROJECT = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^\S(.*\S)?$"}
ADD = shapes.wrapped("addTenantAccess", shapes.closed({"tenant": _PROJECT}))
REMOVE = shapes.wrapped("removeTenantAccess", shapes.closed({"tenant": _PROJECT}))
ACCESS = shapes.listing("flavor_access", shapes.closed({"flavor_id": shapes.STRING, "tenant_id": shapes.STRING}))
