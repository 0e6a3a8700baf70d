"""Schema of evacuate."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import servers
from nova_lite.api.compute.schemas.shapes import NO_BODY
from nova_lite.api.openstack import parameters as p

Json = dict[str, Any]


def _body(more: Json, *required: str) -> Json:
    properties = {"host": p.HOST, "adminPass": servers.PASSWORD, **more}
    argument = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "object", "properties": {"evacuate": argument}, "required": ["evacuate"], "additionalProperties": False}


EVACUATE = {"2.1": _body({"onSharedStorage": p.BOOLEAN}, "onSharedStorage"), "2.14": _body({}),
            "2.29": _body({"force": p.BOOLEAN}), "2.68": _body({})}
# null where none of it is shown: [api] enable_instance_password. Not "type": a list, on which schemathesis 4.32 breaks off here
_ANSWER: Json = {"anyOf": [{"type": "object", "properties": {"adminPass": {"type": ["string", "null"]}},
                            "required": ["adminPass"], "additionalProperties": False}, {"type": "null"}]}
EVACUATE_ANSWER = {"2.1": _ANSWER, "2.14": NO_BODY}
