"""Schemas of /os-keypairs."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_KEY = {"type": "string"}
_TYPE = {"type": "string", "enum": ["ssh", "x509"]}
_USER = {"type": "string", "minLength": 1, "maxLength": 255}
_NAME = {"name": parameters.NAME}
CREATE = {
    "2.1": shapes.wrapped("keypair", shapes.closed(_NAME, {"public_key": _KEY})),
    "2.2": shapes.wrapped("keypair", shapes.closed(_NAME, {"public_key": _KEY, "type": _TYPE})),
    "2.10": shapes.wrapped("keypair", shapes.closed(_NAME, {"public_key": _KEY, "type": _TYPE, "user_id": _USER})),
    "2.92": shapes.wrapped("keypair", shapes.closed({**_NAME, "public_key": _KEY}, {"type": _TYPE, "user_id": _USER}))}

_OF_USER = {"user_id": shapes.ANY_PARAM}
LIST_QUERY = {"2.1": shapes.query({}), "2.10": shapes.query(_OF_USER), "2.35": shapes.query({**shapes.PAGE, **_OF_USER}),
              "2.75": shapes.query({**shapes.PAGE, **_OF_USER}, strict=True)}
ONE_QUERY = {"2.1": shapes.query({}), "2.10": shapes.query(_OF_USER), "2.75": shapes.query(_OF_USER, strict=True)}

_T = {"type": _TYPE}
_BRIEF = shapes.closed({"name": shapes.STRING, "public_key": shapes.STRING, "fingerprint": shapes.STRING})
_FULL = shapes.plus(_BRIEF, {
    "user_id": shapes.STRING, "id": shapes.INTEGER, "deleted": {"const": False}, "created_at": shapes.TIME,
    "updated_at": shapes.MAYBE_TIME, "deleted_at": {"type": "null"}})
_CREATED = shapes.plus(_BRIEF, {"user_id": shapes.STRING}, {"private_key": shapes.STRING})
KEYPAIR = {"2.1": shapes.wrapped("keypair", _FULL), "2.2": shapes.wrapped("keypair", shapes.plus(_FULL, _T))}
CREATED = {"2.1": shapes.wrapped("keypair", _CREATED), "2.2": shapes.wrapped("keypair", shapes.plus(_CREATED, _T)),
           "2.92": shapes.wrapped("keypair", shapes.without(shapes.plus(_CREATED, _T), "private_key"))}
LIST = {"2.1": shapes.listing("keypairs", shapes.wrapped("keypair", _BRIEF)),
        "2.2": shapes.listing("keypairs", shapes.wrapped("keypair", shapes.plus(_BRIEF, _T))),
        "2.35": shapes.listing("keypairs", shapes.wrapped("keypair", shapes.plus(_BRIEF, _T)), paged=True)}
