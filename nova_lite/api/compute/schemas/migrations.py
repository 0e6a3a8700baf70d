"""Schemas of /os-migrations and /servers/{server_id}/migrations."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters, validation

_FILTERS = dict.fromkeys(("hidden", "host", "instance_uuid", "source_compute", "status", "migration_type"), shapes.ANY_PARAM)
_MOMENT = validation.single({"type": "string", "format": "date-time"})
_259 = {**_FILTERS, "limit": validation.single(parameters.QUERY_LIMIT), "marker": validation.single(shapes.STRING),
        "changes-since": _MOMENT}
_266 = {**_259, "changes-before": _MOMENT}
_280 = {**_266, "user_id": validation.single(shapes.STRING), "project_id": validation.single(shapes.STRING)}
LIST_QUERY = {"2.1": shapes.query(_FILTERS), "2.59": shapes.query(_259, strict=True), "2.66": shapes.query(_266, strict=True),
              "2.80": shapes.query(_280, strict=True)}

_HOSTS = dict.fromkeys(("dest_compute", "dest_host", "dest_node", "source_compute", "source_node"), shapes.MAYBE_STRING)
_COMMON = {**_HOSTS, "id": shapes.INTEGER, "status": shapes.STRING, "created_at": shapes.TIME, "updated_at": shapes.MAYBE_TIME}
_UUID = {"uuid": parameters.UUID}
_WHO = {"project_id": shapes.STRING, "user_id": shapes.STRING}
_ANY = shapes.closed({**_COMMON, "instance_uuid": parameters.UUID, "new_instance_type_id": shapes.MAYBE_INTEGER,
                      "old_instance_type_id": shapes.MAYBE_INTEGER})
_ANY_223 = shapes.plus(_ANY, {"migration_type": {"enum": ["migration", "resize", "live-migration", "evacuation"]}},
                       {"links": shapes.LINKS})
_ANY_259 = shapes.plus(_ANY_223, _UUID)
LIST = {"2.1": shapes.listing("migrations", _ANY), "2.23": shapes.listing("migrations", _ANY_223),
        "2.59": shapes.listing("migrations", _ANY_259, paged=True),
        "2.80": shapes.listing("migrations", shapes.plus(_ANY_259, _WHO), paged=True)}

_BYTES = dict.fromkeys((f"{what}_{part}_bytes" for what in ("disk", "memory") for part in ("processed", "remaining", "total")),
                       shapes.MAYBE_INTEGER)
_LIVE = shapes.closed({**_COMMON, **_BYTES, "server_uuid": parameters.UUID})
_LIVES = {"2.23": _LIVE, "2.59": shapes.plus(_LIVE, _UUID), "2.80": shapes.plus(_LIVE, {**_UUID, **_WHO})}
SERVER_LIST = {version: shapes.listing("migrations", live) for version, live in _LIVES.items()}
SERVER_SHOW = {version: shapes.wrapped("migration", live) for version, live in _LIVES.items()}
FORCE_COMPLETE = shapes.wrapped("force_complete", {"type": "null"})
NOTHING = shapes.NO_BODY
