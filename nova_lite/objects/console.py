"""Consoles of guests: where one is, and the token that lets a user through a proxy to it."""
from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from urllib.parse import urlencode

from nova_lite.objects.base import Record

NOVNC, SPICE_HTML5, SPICE_DIRECT, SERIAL = "novnc", "spice-html5", "spice-direct", "serial"
PROTOCOLS = {NOVNC: "vnc", SPICE_HTML5: "spice", SPICE_DIRECT: "spice", SERIAL: "serial"}
"""The types of consoles, and the protocol that each speaks."""


@dataclass
class Console(Record):
    """The address of a guest's console, for a proxy. ``internal_access_path`` is a text that some hypervisors expect first."""

    host: str
    port: int
    tls_port: int | None = None
    internal_access_path: str | None = None


@dataclass
class ConsoleAuthToken(Record):
    """The meaning of a token: one console of one server on one host, at the time when the token was made."""

    instance_uuid: str
    compute_host: str
    console_type: str
    host: str
    port: int
    tls_port: int | None = None
    internal_access_path: str | None = None


def new_token() -> str:
    """122 random bits, in the form of Nova."""
    return str(uuid.uuid4())


def digest(token: str) -> str:
    """Stored and sent in place of a token: the digest does not open a console."""
    return hashlib.sha256(token.encode()).hexdigest()


def access_url(base_url: str, console_type: str, token: str) -> str:
    """The URL that opens a console. noVNC's page wants the path of its websocket."""
    query = {"path": f"?token={token}"} if console_type == NOVNC else {"token": token}
    return f"{base_url}?{urlencode(query)}"
