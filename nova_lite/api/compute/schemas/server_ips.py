"""Schemas of /servers/{server_id}/ips."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas.servers_response import addresses

Json = dict[str, Any]

LIST: Json = {"type": "object", "properties": {"addresses": addresses(False)}, "required": ["addresses"],
              "additionalProperties": False}
SHOW: Json = {**addresses(False), "minProperties": 1, "maxProperties": 1}
