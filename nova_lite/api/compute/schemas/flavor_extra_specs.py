"""Schemas of /flavors/{flavor_id}/os-extra_specs."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_KEY = r"^[a-zA-Z0-9-_:. ]{1,255}$"
_VALUE = {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "number", "minimum": -2 ** 63, "maximum": 2 ** 64}]}
CREATE = shapes.wrapped("extra_specs", {"type": "object", "patternProperties": {_KEY: _VALUE}, "additionalProperties": False})
UPDATE = {"type": "object", "patternProperties": {_KEY: _VALUE}, "minProperties": 1, "maxProperties": 1,
          "additionalProperties": False}
SPECS = shapes.wrapped("extra_specs", {"type": "object", "additionalProperties": shapes.STRING})
SPEC = {"type": "object", "additionalProperties": shapes.STRING, "minProperties": 1, "maxProperties": 1}
