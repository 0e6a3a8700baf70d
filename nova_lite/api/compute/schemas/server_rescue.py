"""Schemas of the actions rescue and unrescue."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.servers import PASSWORD
from nova_lite.api.openstack import parameters as p

Json = dict[str, Any]
RESCUE: Json = {"type": "object", "required": ["rescue"], "additionalProperties": False, "properties": {
    "rescue": {"type": ["object", "null"], "additionalProperties": False,
               "properties": {"adminPass": PASSWORD, "rescue_image_ref": p.UUID}}}}
# without [api] enable_instance_password there is no password to tell
RESCUE_ANSWER: Json = {"type": "object", "additionalProperties": False, "properties": {"adminPass": {"type": "string"}}}
