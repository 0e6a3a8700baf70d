"""Schemas of /flavors."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_FLAVOR_ID = {"anyOf": [{"type": "null"}, {"type": "number", "minimum": -2 ** 63, "maximum": 2 ** 63},
                        {"type": "string", "minLength": 1, "maxLength": 255,
                         "pattern": r"^(?! )[a-zA-Z0-9. _-]+(?<! )$"}]}
_FACTOR = {"type": ["number", "string"], "pattern": r"^[0-9]+(\.[0-9]+)?$", "minLength": 1, "maxLength": 40}
_TEXT = {"type": ["string", "null"], "minLength": 0, "maxLength": 65535, "format": "printable"}
_NEW = shapes.closed(
    {"name": parameters.NAME, "ram": parameters.POSITIVE_INTEGER, "vcpus": parameters.POSITIVE_INTEGER,
     "disk": parameters.NON_NEGATIVE_INTEGER},
    {"id": _FLAVOR_ID, "OS-FLV-EXT-DATA:ephemeral": parameters.NON_NEGATIVE_INTEGER,
     "swap": parameters.NON_NEGATIVE_INTEGER, "rxtx_factor": _FACTOR, "os-flavor-access:is_public": parameters.BOOLEAN})
_NEW_255 = shapes.plus(_NEW, {}, {"description": _TEXT})
CREATE = {"2.1": shapes.wrapped("flavor", _NEW), "2.55": shapes.wrapped("flavor", _NEW_255),
          "2.102": shapes.wrapped("flavor", shapes.without(_NEW_255, "rxtx_factor"))}
UPDATE = shapes.wrapped("flavor", shapes.closed({"description": _TEXT}))

_LIST_QUERY = {**shapes.PAGE, "is_public": shapes.ANY_PARAM, "minRam": shapes.ANY_PARAM, "minDisk": shapes.ANY_PARAM,
               "sort_key": shapes.ANY_PARAM, "sort_dir": shapes.ANY_PARAM}
LIST_QUERY = {"2.1": shapes.query(_LIST_QUERY), "2.75": shapes.query(_LIST_QUERY, strict=True),
              "2.102": shapes.query({**_LIST_QUERY, "name": shapes.ANY_PARAM}, strict=True)}

_BRIEF = shapes.closed({"id": shapes.STRING, "name": shapes.STRING, "links": shapes.LINKS})
_BRIEF_255 = shapes.plus(_BRIEF, {"description": shapes.MAYBE_STRING})
_FULL = shapes.plus(_BRIEF, {
    "ram": shapes.INTEGER, "vcpus": shapes.INTEGER, "disk": shapes.INTEGER, "OS-FLV-EXT-DATA:ephemeral": shapes.INTEGER,
    "OS-FLV-DISABLED:disabled": shapes.BOOLEAN, "os-flavor-access:is_public": shapes.BOOLEAN,
    "swap": {"anyOf": [{"const": ""}, {"type": "integer", "minimum": 1}]}, "rxtx_factor": {"type": "number"}})
_FULL_255 = shapes.plus(_FULL, {"description": shapes.MAYBE_STRING})
_SPECS = {"extra_specs": {"type": "object", "additionalProperties": shapes.STRING}}
_FULL_261 = shapes.plus(_FULL_255, {}, _SPECS)
_FULL_275 = shapes.plus(_FULL_261, {"swap": shapes.INTEGER})
_FULLS = {"2.1": _FULL, "2.55": _FULL_255, "2.61": _FULL_261, "2.75": _FULL_275,
          "2.102": shapes.without(_FULL_275, "rxtx_factor", "OS-FLV-DISABLED:disabled")}
FLAVOR = {version: shapes.wrapped("flavor", schema) for version, schema in _FULLS.items()}
DETAIL = {version: shapes.listing("flavors", schema, paged=True) for version, schema in _FULLS.items()}
LIST = {"2.1": shapes.listing("flavors", _BRIEF, paged=True), "2.55": shapes.listing("flavors", _BRIEF_255, paged=True)}
