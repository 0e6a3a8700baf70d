"""/flavors/{flavor_id}/os-extra_specs: what a flavor asks of its host beyond sizes."""
from __future__ import annotations

from typing import Any

from nova_lite import exception
from nova_lite.api.compute import extra_spec_names
from nova_lite.api.compute.flavors import visible_to
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.compute.schemas.shapes import NO_BODY
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import flavors
from nova_lite.policies.base import admin, reader

_KEY = r"^[a-zA-Z0-9-_:. ]{1,255}$"
_VALUE = {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "number", "minimum": -2 ** 63, "maximum": 2 ** 64}]}
CREATE = shapes.wrapped("extra_specs", {"type": "object", "patternProperties": {_KEY: _VALUE}, "additionalProperties": False})
UPDATE = {"type": "object", "patternProperties": {_KEY: _VALUE}, "minProperties": 1, "maxProperties": 1,
          "additionalProperties": False}
SPECS = shapes.wrapped("extra_specs", {"type": "object", "additionalProperties": shapes.STRING})
SPEC = {"type": "object", "additionalProperties": shapes.STRING, "minProperties": 1, "maxProperties": 1}


def index(req: Request, flavor_id: str) -> dict[str, Any]:
    """All extra specs of a flavor."""
    with req.services.db.read() as conn:
        return {"extra_specs": flavors.get(conn, flavor_id, visible_to(req)).extra_specs}


def show(req: Request, flavor_id: str, key: str) -> dict[str, Any]:
    """One extra spec."""
    with req.services.db.read() as conn:
        specs = flavors.get(conn, flavor_id, visible_to(req)).extra_specs
    if key not in specs:
        raise exception.FlavorExtraSpecNotFound(flavor_id=flavor_id, key=key)
    return {key: specs[key]}


def create(req: Request, flavor_id: str) -> dict[str, Any]:
    """Add or replace extra specs; answers those that were sent."""
    specs = {key: str(value) for key, value in req.json_in["extra_specs"].items()}
    _check(req, specs)
    req.services.db.write(flavors.set_extra_specs, flavor_id, specs)
    return {"extra_specs": specs}


def update(req: Request, flavor_id: str, key: str) -> dict[str, Any]:
    """Add or replace one extra spec."""
    specs = {name: str(value) for name, value in req.json_in.items()}
    if key not in specs:
        raise exception.Invalid("Request body and URI mismatch")
    _check(req, specs)
    req.services.db.write(flavors.set_extra_specs, flavor_id, specs)
    return specs


def delete(req: Request, flavor_id: str, key: str) -> None:
    """Remove one extra spec."""
    req.services.db.write(flavors.delete_extra_spec, flavor_id, key)


def _check(req: Request, specs: dict[str, str]) -> None:
    if req.since("2.86"):
        for name, value in specs.items():
            extra_spec_names.check(name, value)


_PATH = "/flavors/{flavor_id}/os-extra_specs"
_RULE = "os_compute_api:os-flavor-extra-specs"
ROUTES = [
    Route("GET", _PATH, index,
          reader(f"{_RULE}:index",
                 "List the extra specs of a flavor; from 2.61 they are in the view of flavors, from 2.47 in that of servers.",
                 "GET /flavors/detail", "GET /flavors/{flavor_id}", "POST /flavors", "PUT /flavors/{flavor_id}"),
          response=SPECS),
    Route("POST", _PATH, create, admin(f"{_RULE}:create", "Create extra specs of a flavor."), body=CREATE,
          response=SPECS),
    Route("GET", _PATH + "/{key}", show, reader(f"{_RULE}:show", "Show an extra spec of a flavor."), response=SPEC),
    Route("PUT", _PATH + "/{key}", update, admin(f"{_RULE}:update", "Change an extra spec of a flavor."), body=UPDATE,
          response=SPEC),
    Route("DELETE", _PATH + "/{key}", delete, admin(f"{_RULE}:delete", "Delete an extra spec of a flavor."), response=NO_BODY),
]
