"""Schemas of /limits."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_QUERY = {"tenant_id": shapes.ANY_PARAM}
QUERY = {"2.1": shapes.query(_QUERY), "2.75": shapes.query(_QUERY, strict=True)}

_257 = ("maxServerMeta", "maxTotalCores", "maxTotalInstances", "maxTotalKeypairs", "maxTotalRAMSize", "maxServerGroups",
        "maxServerGroupMembers", "totalCoresUsed", "totalInstancesUsed", "totalRAMUsed", "totalServerGroupsUsed")
_239 = (*_257, "maxPersonality", "maxPersonalitySize")
_236 = (*_239, "maxImageMeta")
_21 = (*_236, "maxSecurityGroupRules", "maxSecurityGroups", "maxTotalFloatingIps", "totalFloatingIpsUsed",
       "totalSecurityGroupsUsed")


def _limits(names: tuple[str, ...]) -> shapes.Json:
    absolute = shapes.closed(dict.fromkeys(names, shapes.INTEGER))
    return shapes.wrapped("limits", shapes.closed({"absolute": absolute, "rate": {"type": "array", "maxItems": 0}}))


LIMITS = {"2.1": _limits(_21), "2.36": _limits(_236), "2.39": _limits(_239), "2.57": _limits(_257)}
