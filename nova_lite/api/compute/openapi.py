"""/openapi.json: this API, described for machines, at the microversion of the request."""
from __future__ import annotations

from functools import lru_cache
from typing import Any

from nova_lite.api.openstack import openapi
from nova_lite.api.openstack.registry import Registry, load_modules
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request

_DOCUMENT = {"type": "object", "required": ["openapi", "paths"], "properties": {
    "openapi": {"const": "3.1.0"}, "paths": {"type": "object", "additionalProperties": {"type": "object",
                                                                                        "additionalProperties": True}}}}


@lru_cache(maxsize=4)
def document(microversion: str) -> dict[str, Any]:
    """The document of all installed extensions. Raises InvalidGlobalAPIVersion for a microversion that is not served."""
    return openapi.document(Registry(load_modules()), microversion)


def show(req: Request) -> dict[str, Any]:
    """The OpenAPI document of the microversion that was asked for."""
    return document(req.version)


ROUTES = [Route("GET", "/openapi.json", show, None, response=_DOCUMENT)]
