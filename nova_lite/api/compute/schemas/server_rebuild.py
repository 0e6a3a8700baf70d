"""Schemas of the action rebuild."""
from __future__ import annotations

import copy
from typing import Any

from nova_lite.api.compute.schemas import servers, servers_response
from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.microversions import as_tuple

Json = dict[str, Any]


def _bodies() -> dict[str, Json]:
    properties: Json = {
        "imageRef": p.UUID, "name": p.NAME, "adminPass": servers.PASSWORD,
        "metadata": servers.METADATA, "preserve_ephemeral": p.BOOLEAN, "OS-DCF:diskConfig": servers.DISK_CONFIG,
        "accessIPv4": servers.ACCESS_V4, "accessIPv6": servers.ACCESS_V6, "personality": {"type": "array", "items": {
            "type": "object", "additionalProperties": False, "required": ["path", "contents"],
            "properties": {"path": {"type": "string", "pattern": r"^[^\x00]*$"}, "contents": servers.BASE64}}}}
    changes: list[tuple[str, Json]] = [
        ("2.1", {}), ("2.19", {"description": p.DESCRIPTION}),
        ("2.54", {"key_name": {"oneOf": [p.NAME, {"type": "null"}]}}),
        ("2.57", {"personality": None,
                  "user_data": {"oneOf": [{**servers.BASE64, "maxLength": 65535}, {"type": "null"}]}}),
        ("2.63", {"trusted_image_certificates": servers.CERTIFICATES}),
        ("2.90", {"hostname": servers.HOSTNAME}), ("2.94", {"hostname": servers.FQDN})]
    made: dict[str, Json] = {}
    for version, more in changes:
        properties = {name: schema for name, schema in {**properties, **more}.items() if schema is not None}
        made[version] = {"type": "object", "required": ["rebuild"], "additionalProperties": False, "properties": {
            "rebuild": {"type": "object", "required": ["imageRef"], "additionalProperties": False,
                        "properties": copy.deepcopy(properties)}}}
    return made


_USER_DATA = "OS-EXT-SRV-ATTR:user_data"


def _answer(version: str) -> Json:
    server: Json = copy.deepcopy(servers_response.server(version, updated=True))
    extra: Json = {"adminPass": {"type": "string"}}
    if as_tuple(version) >= (2, 54):
        extra["key_name"] = {"type": ["string", "null"]}
    if as_tuple(version) >= (2, 57):
        extra["user_data"] = {"type": ["string", "null"]}
    server["properties"] |= extra
    server["properties"].pop(_USER_DATA, None)
    server["dependentRequired"] = {name: [other for other in others if other != _USER_DATA]
                                   for name, others in server["dependentRequired"].items() if name != _USER_DATA}
    server["required"] = sorted({*server["required"], *extra} - {"adminPass"})
    return {"type": "object", "required": ["server"], "additionalProperties": False, "properties": {"server": server}}


REBUILD: dict[str, Json] = _bodies()
REBUILD_ANSWER: dict[str, Json] = {v: _answer(v) for v in (
    "2.1", "2.3", "2.9", "2.16", "2.19", "2.26", "2.47", "2.54", "2.57", "2.63", "2.71", "2.73", "2.75", "2.90", "2.96",
    "2.98", "2.100")}
