"""Schemas of /servers/{server_id}/metadata."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.servers import METADATA

Json = dict[str, Any]

BODY: Json = {"type": "object", "properties": {"metadata": METADATA}, "required": ["metadata"],
              "additionalProperties": False}
ITEM: Json = {"type": "object", "properties": {"meta": {**METADATA, "minProperties": 1, "maxProperties": 1}},
              "required": ["meta"], "additionalProperties": False}
