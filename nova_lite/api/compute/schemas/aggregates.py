"""Schemas of /os-aggregates."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_ZONE_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "format": "az_name"}
_ZONE = {"availability_zone": {"anyOf": [_ZONE_NAME, {"type": "null"}]}}
CREATE = shapes.wrapped("aggregate", shapes.closed({"name": parameters.NAME}, _ZONE))
# blanks around a new name are taken away
_NEW_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "format": "padded_name"}
UPDATE = shapes.wrapped("aggregate", shapes.closed({}, {"name": _NEW_NAME, "availability_zone": _ZONE_NAME},
                                                   minProperties=1))
ADD_HOST = shapes.wrapped("add_host", shapes.closed({"host": parameters.HOST}))
REMOVE_HOST = shapes.wrapped("remove_host", shapes.closed({"host": parameters.HOST}))
_VALUE = {"anyOf": [{"type": "string", "maxLength": 255}, {"type": "null"}]}
_METADATA = {"type": "object", "properties": _ZONE, "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}$": _VALUE},
             "additionalProperties": False}
SET_METADATA = shapes.wrapped("set_metadata", shapes.closed({"metadata": _METADATA}))
CACHE = shapes.closed({"cache": {
    "type": "array", "minItems": 1, "items": shapes.closed({"id": parameters.UUID})}})

_NEW = shapes.closed({
    "id": shapes.INTEGER, "name": shapes.STRING, "availability_zone": shapes.MAYBE_STRING, "deleted": {"const": False},
    "created_at": shapes.TIME, "updated_at": shapes.MAYBE_TIME, "deleted_at": {"type": "null"}})
_FULL = shapes.plus(_NEW, {"hosts": {"type": "array", "items": shapes.STRING},
                           "metadata": {"type": "object", "additionalProperties": shapes.STRING}})
_UUID = {"uuid": parameters.UUID}
NEW = {"2.1": shapes.wrapped("aggregate", _NEW), "2.41": shapes.wrapped("aggregate", shapes.plus(_NEW, _UUID))}
AGGREGATE = {"2.1": shapes.wrapped("aggregate", _FULL), "2.41": shapes.wrapped("aggregate", shapes.plus(_FULL, _UUID))}
LIST = {"2.1": shapes.listing("aggregates", _FULL), "2.41": shapes.listing("aggregates", shapes.plus(_FULL, _UUID))}
