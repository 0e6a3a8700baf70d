"""Schemas of /servers/{server_id}/tags."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.servers import TAGS

Json = dict[str, Any]

BODY: Json = {"type": "object", "properties": {"tags": TAGS}, "required": ["tags"], "additionalProperties": False}
