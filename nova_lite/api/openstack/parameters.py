"""JSON schemas of values that many resources take. Merge or copy them; they are not to be changed in place."""
from __future__ import annotations

from typing import Any

Json = dict[str, Any]

NAME: Json = {"type": "string", "minLength": 1, "maxLength": 255, "format": "name"}
DESCRIPTION: Json = {"type": ["string", "null"], "minLength": 0, "maxLength": 255, "format": "printable"}
UUID: Json = {"type": "string", "format": "uuid"}
HOST: Json = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9-._]*$"}
POSITIVE_INTEGER: Json = {"type": ["integer", "string"], "pattern": r"^[0-9]*$", "minimum": 1, "maximum": 0x7FFFFFFF,
                          "minLength": 1, "maxLength": 11}
NON_NEGATIVE_INTEGER: Json = {**POSITIVE_INTEGER, "minimum": 0}
BOOLEAN: Json = {"enum": [True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes",
                          False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"]}
METADATA: Json = {"type": "object", "additionalProperties": False,
                  "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}$": {"type": "string", "maxLength": 255}}}
IP_ADDRESS: Json = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
NULL: Json = {"type": "null"}
STRING: Json = {"type": "string"}

# values of a query are always strings: wrap these in validation.single or validation.multi
QUERY_LIMIT: Json = {"type": "string", "pattern": r"^[0-9]*$", "minLength": 1}
QUERY_NUMBER: Json = QUERY_LIMIT


def links(rels: list[str] | None = None) -> Json:
    """The schema of ``links`` in an answer."""
    rel: Json = {"enum": rels} if rels else {"type": "string"}
    return {"type": "array", "items": {"type": "object", "required": ["href", "rel"], "additionalProperties": False,
                                       "properties": {"href": {"type": "string"}, "rel": rel,
                                                      "type": {"type": "string"}}}}
