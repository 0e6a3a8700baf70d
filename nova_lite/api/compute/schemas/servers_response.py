"""Schemas of the answers of /servers, exact: every key is required at its versions, and no other is allowed."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.objects import states

Json = dict[str, Any]

_STRING: Json = {"type": "string"}
_OPTIONAL: Json = {"type": ["string", "null"]}
_TIME: Json = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
_TIME_MICRO: Json = {"type": ["string", "null"], "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$"}
LINKS = p.links(["self", "bookmark"])
BOOKMARK = p.links(["bookmark"])
NEXT = p.links(["next"])


def _object(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False,
            "required": [name for name in properties if name not in optional]}


def addresses(extended: bool) -> Json:
    """Addresses by the name of their network."""
    address: Json = {"addr": p.IP_ADDRESS, "version": {"enum": [4, 6]}}
    if extended:
        address |= {"OS-EXT-IPS:type": {"enum": ["fixed", "floating"]}, "OS-EXT-IPS-MAC:mac_addr": _STRING}
    return {"type": "object", "additionalProperties": {"type": "array", "items": _object(address)}}


_FAULT = _object({"code": {"type": "integer"}, "created": _TIME, "message": _STRING, "details": _STRING}, ("details",))
_FLAVOR_OLD = _object({"id": _STRING, "links": BOOKMARK})
_FLAVOR_NEW = _object({"vcpus": {"type": "integer"}, "ram": {"type": "integer"}, "disk": {"type": "integer"},
                       "ephemeral": {"type": "integer"}, "swap": {"type": "integer"}, "original_name": _STRING,
                       "extra_specs": {"type": "object", "additionalProperties": _STRING}}, ("extra_specs",))
_GROUPS: Json = {"type": "array", "minItems": 1, "items": _object({"name": _STRING})}


def _image(version: str) -> Json:
    image: Json = {"id": p.UUID, "links": BOOKMARK}
    if as_tuple(version) >= (2, 98):
        image["properties"] = {"type": "object", "additionalProperties": False, "patternProperties": {
            r"^[a-zA-Z0-9_:. ]{1,255}$": {"type": "string", "maxLength": 255}}}
    return {"oneOf": [_object(image), {"type": "string", "maxLength": 0}]}


def _since(version: str, table: list[tuple[str, Json]]) -> Json:
    made: Json = {}
    for first, properties in table:
        if as_tuple(first) <= as_tuple(version):
            made |= properties
    return made


def server(version: str, updated: bool = False, listed: bool = False) -> Json:
    """One server at ``version``: of PUT (``updated``), of /servers/detail (``listed``) or of GET."""
    short = updated and as_tuple(version) < (2, 75)
    properties: Json = {
        "id": p.UUID, "name": _STRING, "status": {"enum": states.STATUSES}, "tenant_id": _STRING, "user_id": _STRING,
        "metadata": {"type": "object", "additionalProperties": _STRING}, "hostId": {"type": "string", "maxLength": 56},
        "image": _image(version), "flavor": _FLAVOR_OLD if as_tuple(version) < (2, 47) else _FLAVOR_NEW,
        "created": _TIME, "updated": _TIME, "addresses": addresses(not short), "links": LINKS, "accessIPv4": _STRING,
        "accessIPv6": _STRING, "OS-DCF:diskConfig": {"enum": ["AUTO", "MANUAL"]}, "fault": _FAULT,
        "progress": {"type": "integer", "minimum": 0, "maximum": 100}}
    optional, attributes = ["fault", "progress"], []
    if not short:
        properties |= _extended(version)
        attributes = [name for name in properties if name.startswith("OS-EXT-SRV-ATTR:")]
        if as_tuple(version) >= (2, 90):
            attributes.remove("OS-EXT-SRV-ATTR:hostname")
        optional += [*attributes, "security_groups", "host_status"]
    properties |= _since(version, [
        ("2.9", {"locked": {"type": "boolean"}}), ("2.19", {"description": _OPTIONAL}),
        ("2.26", {"tags": {"type": "array", "items": _STRING}}),
        ("2.63", {"trusted_image_certificates": {"type": ["array", "null"], "items": _STRING}}),
        ("2.73", {"locked_reason": _OPTIONAL}), ("2.96", {"pinned_availability_zone": _OPTIONAL}),
        ("2.100", {"scheduler_hints": {"type": "object", "additionalProperties": {"type": "array"}}})])
    if not listed and as_tuple(version) >= (2, 71):
        properties["server_groups"] = {"type": "array", "items": p.UUID, "maxItems": 1}
    # one policy shows them all
    return {**_object(properties, tuple(optional)), "dependentRequired": dict.fromkeys(attributes, attributes)}


def _extended(version: str) -> Json:
    volume: Json = {"id": _STRING}
    if as_tuple(version) >= (2, 3):
        volume["delete_on_termination"] = {"type": "boolean"}
    return {
        "OS-EXT-AZ:availability_zone": _STRING, "config_drive": {"enum": ["", "True"]}, "key_name": _OPTIONAL,
        "OS-SRV-USG:launched_at": _TIME_MICRO, "OS-SRV-USG:terminated_at": _TIME_MICRO, "security_groups": _GROUPS,
        "OS-EXT-STS:task_state": _OPTIONAL, "OS-EXT-STS:vm_state": _STRING,
        "OS-EXT-STS:power_state": {"enum": [0, 1, 3, 4, 6, 7]},
        "os-extended-volumes:volumes_attached": {"type": "array", "items": _object(volume)},
        "OS-EXT-SRV-ATTR:host": _OPTIONAL, "OS-EXT-SRV-ATTR:hypervisor_hostname": _OPTIONAL,
        "OS-EXT-SRV-ATTR:instance_name": _STRING,
        **_since(version, [
            ("2.3", {"OS-EXT-SRV-ATTR:hostname": _OPTIONAL, "OS-EXT-SRV-ATTR:kernel_id": _STRING,
                     "OS-EXT-SRV-ATTR:launch_index": {"type": "integer"}, "OS-EXT-SRV-ATTR:ramdisk_id": _STRING,
                     "OS-EXT-SRV-ATTR:reservation_id": _STRING, "OS-EXT-SRV-ATTR:root_device_name": _OPTIONAL,
                     "OS-EXT-SRV-ATTR:user_data": _OPTIONAL}),
            ("2.16", {"host_status": {"enum": ["UP", "DOWN", "MAINTENANCE", "UNKNOWN", ""]}})])}


_VERSIONS = ("2.1", "2.3", "2.9", "2.16", "2.19", "2.26", "2.47", "2.63", "2.71", "2.73", "2.75", "2.90", "2.96", "2.98",
             "2.100")


def _list(item: Json) -> Json:
    return {"type": "object", "required": ["servers"], "additionalProperties": False, "properties": {
        "servers": {"type": "array", "items": item}, "servers_links": NEXT}}


SHOW: dict[str, Json] = {v: _object({"server": server(v)}) for v in _VERSIONS}
UPDATE: dict[str, Json] = {v: _object({"server": server(v, updated=True)}) for v in _VERSIONS}
DETAIL: dict[str, Json] = {v: _list(server(v, listed=True)) for v in _VERSIONS}
INDEX: Json = _list(_object({"id": p.UUID, "name": _STRING, "links": LINKS}))
CREATE: Json = {"oneOf": [
    _object({"reservation_id": _STRING}),
    _object({"server": _object({"id": p.UUID, "links": LINKS, "OS-DCF:diskConfig": {"enum": ["AUTO", "MANUAL"]},
                                "security_groups": {"type": "array", "items": _object({"name": _STRING}, ("name",))},
                                "adminPass": _STRING}, ("adminPass", "security_groups"))})]}
