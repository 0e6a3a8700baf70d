"""Schemas of the action unshelve; those of shelve and shelveOffload take anything."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.server_actions import no_argument
from nova_lite.api.openstack import parameters as p

Json = dict[str, Any]
_ZONE: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$"}


def _unshelve(argument: Json) -> Json:
    return {"type": "object", "required": ["unshelve"], "additionalProperties": False, "properties": {"unshelve": argument}}


def _place(properties: Json, required: list[str]) -> Json:
    return {"type": ["object", "null"], "additionalProperties": False, "properties": properties, "required": required}


UNSHELVE: dict[str, Json] = {
    "2.1": no_argument("unshelve"),
    "2.77": _unshelve(_place({"availability_zone": _ZONE}, ["availability_zone"])),
    "2.91": _unshelve(_place({"availability_zone": {"oneOf": [_ZONE, {"type": "null"}]}, "host": p.HOST}, []))}
