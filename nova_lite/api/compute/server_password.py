"""/servers/{server_id}/os-server-password: what the guest encrypted with the key of its user."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import server_passwords
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member, reader

PASSWORD: dict[str, Any] = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"],
                            "additionalProperties": False}

RULE = "os_compute_api:os-server-password:"
PATH = "/servers/{server_id}/os-server-password"


def show(_req: Request, instance: Instance) -> dict[str, Any]:
    """The password, still encrypted; empty when the guest never posted one."""
    return {"password": instance.encrypted_password}


def clear(req: Request, instance: Instance) -> None:
    """Delete the stored password. The guest keeps its password, but it cannot be read any more."""
    req.services.db.write(server_passwords.clear, instance.uuid)


ROUTES = [
    Route("GET", PATH, show, reader(f"{RULE}show", "Show the encrypted password of a server."), response=PASSWORD),
    Route("DELETE", PATH, clear, member(f"{RULE}clear", "Forget the encrypted password of a server."), status=204),
]
