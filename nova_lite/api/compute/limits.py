"""/limits: the limits of a project, and its usage."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import limits as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import quotas
from nova_lite.policies.base import admin, anyone

_OTHER_PROJECT = admin("os_compute_api:limits:other_project", "Show the limits of another project.", "GET /limits")
NAMES = {"metadata_items": "maxServerMeta", "cores": "maxTotalCores", "instances": "maxTotalInstances",
         "key_pairs": "maxTotalKeypairs", "ram": "maxTotalRAMSize", "server_groups": "maxServerGroups",
         "server_group_members": "maxServerGroupMembers"}
USED = {"cores": "totalCoresUsed", "instances": "totalInstancesUsed", "ram": "totalRAMUsed",
        "server_groups": "totalServerGroupsUsed"}
PERSONALITY = {"injected_files": "maxPersonality", "injected_file_content_bytes": "maxPersonalitySize"}
# as in Nova they are kept and shown and limit nothing: none is in use here
NETWORK = {"security_group_rules": "maxSecurityGroupRules", "security_groups": "maxSecurityGroups",
           "floating_ips": "maxTotalFloatingIps"}
NETWORK_USED = {"totalFloatingIpsUsed": 0, "totalSecurityGroupsUsed": 0}


def index(req: Request) -> dict[str, Any]:
    """The limits of the caller's project, or of ``tenant_id``."""
    project: str = req.context.project_id or ""
    asked = params.last(req, "tenant_id")
    if asked and asked != project:
        req.can(_OTHER_PROJECT, {"project_id": asked, "user_id": req.context.user_id})
        project = asked
    with req.services.db.read() as conn:
        limits, used = quotas.limits_for(conn, req.services.conf, project), quotas.usage(conn, project)
    absolute = {name: limits[resource] for resource, name in NAMES.items()}
    absolute |= {name: used[resource] for resource, name in USED.items()}
    if not req.since("2.57"):
        absolute |= {name: limits[resource] for resource, name in PERSONALITY.items()}
    if not req.since("2.39"):
        absolute["maxImageMeta"] = limits["metadata_items"]
    if not req.since("2.36"):
        absolute |= NETWORK_USED | {name: limits.get(resource, -1) for resource, name in NETWORK.items()}
    return {"limits": {"absolute": absolute, "rate": []}}


ROUTES = [
    Route("GET", "/limits", index, anyone("os_compute_api:limits", "Show the limits of the caller's project."),
          query=schema.QUERY, response=schema.LIMITS),
]
RULES = [_OTHER_PROJECT]
