"""Schemas of /os-server-groups."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack import parameters

_HARD = ["anti-affinity", "affinity"]
_ALL = [*_HARD, "soft-anti-affinity", "soft-affinity"]


def _policies(names: list[str]) -> shapes.Json:
    one = {"type": "array", "items": {"enum": names}, "minItems": 1, "maxItems": 1}
    return shapes.wrapped("server_group", shapes.closed({"name": parameters.NAME, "policies": one}))


_RULES_IN = shapes.closed({}, {"max_server_per_host": parameters.POSITIVE_INTEGER})
CREATE = {"2.1": _policies(_HARD), "2.15": _policies(_ALL), "2.64": shapes.wrapped("server_group", shapes.closed(
    {"name": parameters.NAME, "policy": {"enum": _ALL}}, {"rules": _RULES_IN}))}
_LIST_QUERY = {"all_projects": shapes.ANY_PARAM, "limit": shapes.PAGE["limit"], "offset": shapes.PAGE["limit"]}
LIST_QUERY = {"2.1": shapes.query(_LIST_QUERY), "2.75": shapes.query(_LIST_QUERY, strict=True)}

_GROUP = shapes.closed({
    "id": parameters.UUID, "name": shapes.STRING, "members": {"type": "array", "items": parameters.UUID},
    "policies": {"type": "array", "items": {"enum": _ALL}}, "metadata": {"type": "object", "maxProperties": 0}})
_GROUP_213 = shapes.plus(_GROUP, {"project_id": shapes.STRING, "user_id": shapes.STRING})
_GROUP_264 = shapes.plus(shapes.without(_GROUP_213, "policies", "metadata"), {
    "policy": {"enum": _ALL}, "rules": shapes.closed({}, {"max_server_per_host": shapes.INTEGER})})
_GROUPS = {"2.1": _GROUP, "2.13": _GROUP_213, "2.64": _GROUP_264}
GROUP = {version: shapes.wrapped("server_group", group) for version, group in _GROUPS.items()}
LIST = {version: shapes.listing("server_groups", group) for version, group in _GROUPS.items()}
