"""Schemas of /os-services."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_WHO = {"host": parameters.HOST, "binary": {"type": "string", "minLength": 1, "maxLength": 255}}
_REASON = {"disabled_reason": {"type": "string", "minLength": 1, "maxLength": 255}}
_DOWN = {"forced_down": parameters.BOOLEAN}
UPDATE = {"2.1": shapes.closed(_WHO, _REASON), "2.11": shapes.closed(_WHO, {**_REASON, **_DOWN}),
          "2.53": shapes.closed({}, {"status": {"enum": ["enabled", "disabled"]}, **_REASON, **_DOWN})}
_LIST_QUERY = {"host": shapes.ANY_PARAM, "binary": shapes.ANY_PARAM}
LIST_QUERY = {"2.1": shapes.query(_LIST_QUERY), "2.75": shapes.query(_LIST_QUERY, strict=True)}

_STATUS = {"enum": ["enabled", "disabled"]}
_SERVICE = shapes.closed({
    "id": shapes.INTEGER, "binary": shapes.STRING, "host": shapes.STRING, "zone": shapes.STRING, "status": _STATUS,
    "state": {"enum": ["up", "down"]}, "disabled_reason": shapes.MAYBE_STRING, "updated_at": shapes.MAYBE_TIME})
_SERVICE_211 = shapes.plus(_SERVICE, {"forced_down": shapes.BOOLEAN})
_SERVICE_253 = shapes.plus(_SERVICE_211, {"id": parameters.UUID})
LIST = {"2.1": shapes.listing("services", _SERVICE), "2.11": shapes.listing("services", _SERVICE_211),
        "2.53": shapes.listing("services", _SERVICE_253)}
_CHANGED = shapes.closed({"binary": shapes.STRING, "host": shapes.STRING},
                         {"status": _STATUS, "disabled_reason": shapes.STRING, "forced_down": shapes.BOOLEAN})
UPDATED = {"2.1": shapes.wrapped("service", _CHANGED), "2.53": shapes.wrapped("service", _SERVICE_253)}
