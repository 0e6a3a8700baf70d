"""Schemas of /servers: bodies and queries. Answers are in servers_response.py."""
from __future__ import annotations

import copy
from typing import Any

from nova_lite.api.openstack import parameters as p
from nova_lite.api.openstack.validation import multi

Json = dict[str, Any]

BASE64: Json = {"type": "string", "format": "base64"}
DISK_CONFIG: Json = {"type": "string", "enum": ["AUTO", "MANUAL"]}
PASSWORD: Json = {"type": "string", "pattern": r"^[^\x00]*$", "maxLength": 1024}
METADATA: Json = {"type": "object", "additionalProperties": False, "patternProperties": {
    r"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": "string", "maxLength": 255, "pattern": r"^[^\x00]*$"}}}
TAG: Json = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": r"^[^,/\x00-\x1f]*$"}
TAGS: Json = {"type": "array", "items": TAG, "maxItems": 50}
DEVICE_TAG: Json = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": r"^[^,/\x00-\x1f]*$"}
HOSTNAME: Json = {"type": "string", "minLength": 2, "maxLength": 63,
                  "pattern": r"^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$"}
FQDN: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9-._]*$"}
CERTIFICATES: Json = {"type": ["array", "null"], "minItems": 1, "maxItems": 50, "uniqueItems": True,
                      "items": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$"}}
# an address may also be given as "", which takes it away
ACCESS_V4: Json = {"type": ["string", "null"], "anyOf": [{"format": "ipv4"}, {"enum": ["", None]}]}
ACCESS_V6: Json = {"type": ["string", "null"], "anyOf": [{"format": "ipv6"}, {"enum": ["", None]}]}
_UUIDS: Json = {"oneOf": [p.UUID, {"type": "array", "items": p.UUID}]}
HINTS: Json = {
    "type": "object", "additionalProperties": True, "maxProperties": 100,
    "properties": {
        "group": p.UUID, "different_host": _UUIDS,
        "same_host": {"type": ["string", "array"], "pattern": r"^[^\x00]*$", "items": p.UUID},
        "query": {"type": ["string", "object"]}, "target_cell": {"type": "string", "minLength": 1, "maxLength": 255},
        "different_cell": {"type": ["string", "array"], "items": p.STRING}, "build_near_host_ip": p.IP_ADDRESS,
        "cidr": {"type": "string", "pattern": r"^/[0-9a-f.:]+$"}}}


def _network(uuid: Json, tag: bool) -> Json:
    properties: Json = {
        "fixed_ip": p.IP_ADDRESS, "port": {"oneOf": [p.UUID, {"type": "null"}]}, "uuid": uuid}
    if tag:
        properties["tag"] = DEVICE_TAG
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _networks(tag: bool, words: bool) -> Json:
    made: Json = {"type": "array", "maxItems": 100, "items": _network(p.UUID, tag)}
    return {"oneOf": [made, {"type": "string", "enum": ["none", "auto"]}]} if words else made


_DEVICE_NAME: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._/-]*$"}
_BDM_COMMON: Json = {
    "virtual_name": {"type": "string", "maxLength": 255}, "volume_id": p.UUID, "snapshot_id": p.UUID,
    "volume_size": p.NON_NEGATIVE_INTEGER, "delete_on_termination": p.BOOLEAN,
    "no_device": {}, "device_name": _DEVICE_NAME,
    "connection_info": {"type": "string", "maxLength": 16777215}}
_BDM_LEGACY: Json = {"type": "array", "items": {"type": "object", "properties": _BDM_COMMON, "additionalProperties": False}}


def _bdm_v2(tag: bool = False, volume_type: bool = False) -> Json:
    properties: Json = {
        **_BDM_COMMON, "image_id": p.UUID,
        "source_type": {"type": "string", "enum": ["volume", "image", "snapshot", "blank"]},
        "uuid": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*$"},
        "destination_type": {"type": "string", "enum": ["local", "volume"]},
        "guest_format": {"type": "string", "maxLength": 255}, "device_type": {"type": "string", "maxLength": 255},
        "disk_bus": {"type": "string", "maxLength": 255},
        "boot_index": {"type": ["integer", "string", "null"], "pattern": r"^-?[0-9]+$"}}
    if tag:
        properties["tag"] = DEVICE_TAG
    if volume_type:
        properties["volume_type"] = {"type": ["string", "null"], "maxLength": 255}
    return {"type": "array", "items": {"type": "object", "properties": properties, "additionalProperties": False}}


def _image_ref() -> Json:
    return {"oneOf": [p.UUID, {"type": "string", "maxLength": 0}]}


def _create(server: Json, required: list[str]) -> Json:
    return {
        "type": "object", "required": ["server"], "additionalProperties": False,
        "properties": {
            "server": {"type": "object", "properties": server, "required": required, "additionalProperties": False},
            "os:scheduler_hints": HINTS, "OS-SCH-HNT:scheduler_hints": HINTS}}


def _creations() -> dict[str, Json]:
    server: Json = {
        "name": p.NAME, "imageRef": _image_ref(),
        "flavorRef": {"type": ["string", "integer"], "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$",
                      "maximum": 0x7FFFFFFF},
        "adminPass": PASSWORD, "metadata": METADATA, "networks": _networks(False, False),
        "OS-DCF:diskConfig": DISK_CONFIG, "accessIPv4": ACCESS_V4, "accessIPv6": ACCESS_V6,
        "personality": {"type": "array", "items": {
            "type": "object", "additionalProperties": False, "required": ["path", "contents"],
            "properties": {"path": {"type": "string", "pattern": r"^[^\x00]*$"}, "contents": BASE64}}},
        "availability_zone": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00-\x1f]*$"},
        "block_device_mapping": _BDM_LEGACY, "block_device_mapping_v2": _bdm_v2(),
        "config_drive": p.BOOLEAN, "key_name": p.NAME, "min_count": p.POSITIVE_INTEGER, "max_count": p.POSITIVE_INTEGER,
        "return_reservation_id": p.BOOLEAN,
        "security_groups": {"type": "array", "items": {
            "type": "object", "additionalProperties": False,
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$"}}}},
        "user_data": {**BASE64, "maxLength": 65535}}
    required = ["name", "flavorRef"]
    changes: list[tuple[str, Json]] = [
        ("2.19", {"description": p.DESCRIPTION}),
        ("2.32", {"networks": _networks(True, False), "block_device_mapping_v2": _bdm_v2(tag=True)}),
        ("2.33", {"block_device_mapping_v2": _bdm_v2()}),
        ("2.37", {"networks": _networks(False, True)}),
        ("2.42", {"networks": _networks(True, True), "block_device_mapping_v2": _bdm_v2(tag=True)}),
        ("2.52", {"tags": TAGS}),
        ("2.57", {"personality": None}),
        ("2.63", {"trusted_image_certificates": CERTIFICATES}),
        ("2.67", {"block_device_mapping_v2": _bdm_v2(tag=True, volume_type=True)}),
        ("2.74", {"host": p.HOST, "hypervisor_hostname": p.HOST}),
        ("2.90", {"hostname": HOSTNAME}),
        ("2.94", {"hostname": FQDN}),
    ]
    made = {"2.1": _create(copy.deepcopy(server), required)}
    for version, properties in changes:
        server.update(properties)
        server = {name: schema for name, schema in server.items() if schema is not None}
        if version == "2.37":
            required = [*required, "networks"]
        made[version] = _create(copy.deepcopy(server), required)
    return made


CREATE: dict[str, Json] = _creations()


def _updates() -> dict[str, Json]:
    server: Json = {"name": p.NAME, "OS-DCF:diskConfig": DISK_CONFIG, "accessIPv4": ACCESS_V4, "accessIPv6": ACCESS_V6}
    made: dict[str, Json] = {}
    for version, properties in (("2.1", {}), ("2.19", {"description": p.DESCRIPTION}), ("2.90", {"hostname": HOSTNAME}),
                                ("2.94", {"hostname": FQDN}),
                                ("2.104", {"pinned_availability_zone": {
                                    "type": ["string", "null"], "minLength": 1, "maxLength": 255,
                                    "pattern": r"^[^\x00-\x1f]*$"}})):
        server = {**server, **properties}
        made[version] = {"type": "object", "required": ["server"], "additionalProperties": False, "properties": {
            "server": {"type": "object", "properties": server, "additionalProperties": False}}}
    return made


UPDATE: dict[str, Json] = _updates()

# queries ----------------------------------------------------------------------------------------------------------------
# taken and ignored until 2.74; "locked" is one to sort by from 2.73 on
IGNORED_SORT_KEYS = (
    "architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted", "deleted_at",
    "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on", "locked", "memory_mb",
    "os_type", "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus", "vm_mode")
SORT_KEYS = ["access_ip_v4", "access_ip_v6", "auto_disk_config", "availability_zone", "config_drive", "created_at",
             "display_description", "display_name", "host", "hostname", "image_ref", "instance_type_id", "kernel_id",
             "key_name", "launch_index", "launched_at", "locked_by", "node", "power_state", "progress", "project_id",
             "ramdisk_id", "root_device_name", "task_state", "terminated_at", "updated_at", "user_id", "uuid", "vm_state"]
_TEXT_QUERY: Json = {"type": "string", "maxLength": 255, "pattern": r"^[^\x00]*$"}
_REGEX: Json = {"type": "string", "format": "regex", "maxLength": 255, "pattern": r"^[^\x00]*$"}
TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")
# names of Nova's tables: who may filter by anything is told that these are no filters, for the others they are ignored
NO_FILTERS = ("block_device_mapping", "services", "metadata", "system_metadata", "info_cache", "security_groups", "pci_devices")


def _sort_keys(*more: str) -> Json:
    return multi({"type": "string", "enum": sorted({*SORT_KEYS, *more})})


def _list_queries() -> dict[str, Json]:
    texts = ("user_id", "project_id", "tenant_id", "launch_index", "image_ref", "image", "vm_state", "task_state",
             "all_tenants", "soft_deleted", "deleted", "status", "uuid", "host", *NO_FILTERS)
    patterns = ("hostname", "reservation_id", "availability_zone", "name", "display_name", "description",
                "display_description", "root_device_name", "access_ip_v4", "access_ip_v6", "ip", "ip6", "kernel_id",
                "ramdisk_id", "key_name", "power_state", "flavor", "launched_at", "terminated_at", "created_at", "locked_by",
                "config_drive", "auto_disk_config", "progress", "node")
    moments = multi({"type": "string", "format": "date-time"})
    properties: Json = {
        **{name: multi(_TEXT_QUERY) for name in texts}, **{name: multi(_REGEX) for name in patterns},
        "changes-since": moments,
        "sort_key": _sort_keys(*IGNORED_SORT_KEYS), "sort_dir": multi({"type": "string", "enum": ["asc", "desc"]}),
        "limit": multi(p.QUERY_LIMIT), "marker": multi(_TEXT_QUERY)}
    made: dict[str, Json] = {"2.1": {"type": "object", "properties": properties, "additionalProperties": True,
                                     "patternProperties": {"^_": multi(_TEXT_QUERY)}}}
    for version, more in (
            ("2.26", {name: multi({**_TEXT_QUERY, "minLength": 1, "maxLength": 4000}) for name in TAG_FILTERS}),
            ("2.66", {"changes-before": moments}),
            ("2.73", {"locked": multi(_TEXT_QUERY)}),
            ("2.75", {"sort_key": _sort_keys("locked")})):
        properties = {**properties, **more}
        made[version] = {"type": "object", "properties": properties, "additionalProperties": version != "2.75",
                         "patternProperties": {"^_": multi(_TEXT_QUERY)}}
    return made


LIST: dict[str, Json] = _list_queries()
NO_QUERY: dict[str, Json] = {"2.1": {"type": "object", "properties": {}, "additionalProperties": True},
                             "2.102": {"type": "object", "properties": {}, "additionalProperties": False}}
