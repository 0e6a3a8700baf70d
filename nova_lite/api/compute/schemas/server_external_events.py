"""Schemas of /os-server-external-events."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_NAMES = ["network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted"]
_SINCE = {"2.51": "volume-extended", "2.76": "power-update", "2.82": "accelerator-request-bound", "2.93": "volume-reimaged"}
_STATUS = {"enum": ["failed", "completed", "in-progress"]}
_TAG = {"type": "string", "maxLength": 255}


def _create(names: list[str]) -> shapes.Json:
    event = shapes.closed({"server_uuid": parameters.UUID, "name": {"enum": names}}, {"status": _STATUS, "tag": _TAG})
    return shapes.wrapped("events", {"type": "array", "minItems": 1, "items": event})


def _versions() -> dict[str, shapes.Json]:
    names = list(_NAMES)
    made = {"2.1": _create(names)}
    for version, name in _SINCE.items():
        names = [*names, name]
        made[version] = _create(names)
    return made


CREATE = _versions()
EVENTS = shapes.listing("events", shapes.closed(
    {"server_uuid": parameters.UUID, "name": shapes.STRING, "status": _STATUS, "code": shapes.INTEGER}, {"tag": _TAG}))
