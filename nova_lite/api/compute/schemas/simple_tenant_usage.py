"""Schemas of /os-simple-tenant-usage."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters
from nova_lite.objects import states

_SHOW = {"start": shapes.ANY_PARAM, "end": shapes.ANY_PARAM}
_LIST = {**_SHOW, "detailed": shapes.ANY_PARAM}


def _query(properties: shapes.Json) -> shapes.Json:
    return {"2.1": shapes.query(properties), "2.40": shapes.query({**properties, **shapes.PAGE}),
            "2.75": shapes.query({**properties, **shapes.PAGE}, strict=True)}


LIST_QUERY, SHOW_QUERY = _query(_LIST), _query(_SHOW)
_NUMBER = {"type": "number", "minimum": 0}
_COUNT = {"type": "integer", "minimum": 0}
_STATES = sorted({*states.VM_STATES, "terminated"} - {states.DELETED})
_SERVER = shapes.closed({
    "ended_at": shapes.MAYBE_TIME, "flavor": shapes.STRING, "hours": _NUMBER, "instance_id": parameters.UUID,
    "local_gb": _COUNT, "memory_mb": _COUNT, "name": shapes.STRING, "started_at": shapes.TIME, "state": {"enum": _STATES},
    "tenant_id": shapes.STRING, "uptime": _COUNT, "vcpus": _COUNT})
_PROJECT = shapes.closed(
    {"start": shapes.TIME, "stop": shapes.TIME, "tenant_id": shapes.STRING, "total_hours": _NUMBER,
     "total_local_gb_usage": _NUMBER, "total_memory_mb_usage": _NUMBER, "total_vcpus_usage": _NUMBER},
    {"server_usages": {"type": "array", "items": _SERVER}})
LIST = {"2.1": shapes.listing("tenant_usages", _PROJECT), "2.40": shapes.listing("tenant_usages", _PROJECT, paged=True)}
_ONE = shapes.wrapped("tenant_usage", {"anyOf": [
    {**_PROJECT, "required": [*_PROJECT["required"], "server_usages"]}, {"type": "object", "maxProperties": 0}]})
SHOW = {"2.1": _ONE, "2.40": shapes.plus(_ONE, {}, {"tenant_usage_links": shapes.LINKS})}
