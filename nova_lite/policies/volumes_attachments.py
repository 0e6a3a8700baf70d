"""Policies: volumes of servers."""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies.base import member, reader, service

RULES: list[policy.DocumentedRuleDefault] = [
    reader("os_compute_api:os-volumes-attachments:index",
           "List the volumes of a server.",
           "GET /servers/{server_id}/os-volume_attachments"),
    member("os_compute_api:os-volumes-attachments:create",
           "Attach a volume to a server.",
           "POST /servers/{server_id}/os-volume_attachments"),
    reader("os_compute_api:os-volumes-attachments:show",
           "Show a volume of a server.",
           "GET /servers/{server_id}/os-volume_attachments/{volume_id}"),
    member("os_compute_api:os-volumes-attachments:update",
           "Change the attachment of a volume (2.85).",
           "PUT /servers/{server_id}/os-volume_attachments/{volume_id}"),
    service("os_compute_api:os-volumes-attachments:swap",
            "Exchange a volume of a server for another.",
            "PUT /servers/{server_id}/os-volume_attachments/{volume_id}"),
    member("os_compute_api:os-volumes-attachments:delete",
           "Detach a volume from a server.",
           "DELETE /servers/{server_id}/os-volume_attachments/{volume_id}"),
]


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """The rules of this file."""
    return RULES
