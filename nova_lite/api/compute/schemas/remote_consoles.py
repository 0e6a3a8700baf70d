"""Schemas of remote consoles."""
from __future__ import annotations

from nova_lite.api.compute.schemas.shapes import STRING, Json, closed, wrapped

_PROTOCOLS = ["vnc", "spice", "rdp", "serial"]
_TYPES = ["novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial"]


def _create(protocols: list[str], types: list[str]) -> Json:
    return wrapped("remote_console", closed({"protocol": {"type": "string", "enum": protocols},
                                             "type": {"type": "string", "enum": types}}))


CREATE = {"2.6": _create(_PROTOCOLS, _TYPES), "2.8": _create([*_PROTOCOLS, "mks"], [*_TYPES, "webmks"]),
          "2.99": _create([*_PROTOCOLS, "mks"], [*_TYPES, "webmks", "spice-direct"])}
CREATED = wrapped("remote_console", closed({"protocol": STRING, "type": STRING, "url": {**STRING, "format": "uri"}}))


def _action(action: str, *types: str) -> Json:
    return wrapped(action, closed({"type": {"type": "string", "enum": list(types)}}))


ACTIONS = {"os-getVNCConsole": _action("os-getVNCConsole", "novnc", "xvpvnc"),
           "os-getSPICEConsole": _action("os-getSPICEConsole", "spice-html5"),
           "os-getSerialConsole": _action("os-getSerialConsole", "serial")}
ACTION_ANSWER = wrapped("console", closed({"type": STRING, "url": {**STRING, "format": "uri"}}))
