"""Schemas of /servers/{server_id}/os-server-password."""
from __future__ import annotations

from typing import Any

PASSWORD: dict[str, Any] = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"],
                            "additionalProperties": False}
