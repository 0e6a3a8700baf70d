"""Schemas of /images."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters, validation

_COUNT = validation.multi({**parameters.QUERY_NUMBER, "minimum": 1})
_FILTERS = ("name", "status", "minRam", "minDisk", "server", "type", "changes-since")
LIST_QUERY = {"type": "object", "properties": {
    "marker": shapes.ANY_PARAM, **dict.fromkeys(("limit", "page_size", "offset"), _COUNT),
    **dict.fromkeys(_FILTERS, shapes.ANY_PARAM)},
              "patternProperties": {r"^property-": shapes.ANY_PARAM}, "additionalProperties": True}
_BRIEF = shapes.closed({"id": shapes.STRING, "name": shapes.MAYBE_STRING, "links": shapes.LINKS})
_FULL = shapes.plus(_BRIEF, {
    "status": {"enum": ["ACTIVE", "SAVING", "DELETED", "ERROR", "UNKNOWN"]}, "progress": shapes.INTEGER,
    "minDisk": shapes.INTEGER, "minRam": shapes.INTEGER, "metadata": shapes.TEXTS, "created": shapes.MAYBE_STRING,
    "updated": shapes.MAYBE_STRING, "OS-EXT-IMG-SIZE:size": shapes.INTEGER}, {
    "OS-DCF:diskConfig": {"enum": ["AUTO", "MANUAL"]},
    "server": shapes.closed({"id": shapes.STRING, "links": shapes.LINKS})})
LIST = shapes.listing("images", _BRIEF, paged=True)
DETAIL = shapes.listing("images", _FULL, paged=True)
IMAGE = shapes.wrapped("image", _FULL)

METADATA_IN = shapes.wrapped("metadata", parameters.METADATA)
META_IN = shapes.wrapped("meta", {**parameters.METADATA, "minProperties": 1, "maxProperties": 1})
METADATA = shapes.wrapped("metadata", shapes.TEXTS)
META = shapes.wrapped("meta", {**shapes.TEXTS, "minProperties": 1, "maxProperties": 1})
