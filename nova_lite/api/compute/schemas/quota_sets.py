"""Schemas of /os-quota-sets, and the resources that quotas have at each microversion."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters, validation

_COMMON = ("cores", "instances", "key_pairs", "metadata_items", "ram", "server_group_members", "server_groups")
_INJECTED = ("injected_file_content_bytes", "injected_file_path_bytes", "injected_files")
NETWORK = ("fixed_ips", "floating_ips", "security_group_rules", "security_groups")
RESOURCES = {"2.1": (*_COMMON, *_INJECTED, *NETWORK), "2.36": (*_COMMON, *_INJECTED), "2.57": _COMMON}
LIMIT = {"type": ["integer", "string"], "pattern": r"^-?[0-9]+$", "minimum": -1, "maximum": 0x7FFFFFFF,
         "maxLength": 11}
_DETAIL = shapes.closed({"in_use": shapes.INTEGER, "limit": shapes.INTEGER, "reserved": shapes.INTEGER})

UPDATE = {version: shapes.wrapped("quota_set", shapes.closed({}, {**dict.fromkeys(names, LIMIT),
                                                                  "force": parameters.BOOLEAN}))
          for version, names in RESOURCES.items()}
_QUERY = {"user_id": validation.multi({"type": "string", "maxLength": 255})}
QUERY = {"2.1": shapes.query(_QUERY), "2.75": shapes.query(_QUERY, strict=True)}

UPDATED = {version: shapes.wrapped("quota_set", shapes.closed(dict.fromkeys(names, shapes.INTEGER)))
           for version, names in RESOURCES.items()}
_ID = {"id": shapes.STRING}
QUOTA_SET = {version: shapes.wrapped("quota_set", shapes.closed({**dict.fromkeys(names, shapes.INTEGER), **_ID}))
             for version, names in RESOURCES.items()}
DETAIL = {version: shapes.wrapped("quota_set", shapes.closed({**dict.fromkeys(names, _DETAIL), **_ID}))
          for version, names in RESOURCES.items()}
