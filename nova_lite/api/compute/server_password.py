"""/servers/{server_id}/os-server-password: what the guest encrypted with the key of its user."""
from __future__ import annotations

from typing import Any

from nova_lite.api.compute.schemas import server_password as schema
from nova_lite.api.compute.servers import find
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import server_passwords

RULE = "os_compute_api:os-server-password:"
PATH = "/servers/{server_id}/os-server-password"


def show(req: Request, server_id: str) -> dict[str, Any]:
    """The password, still encrypted; empty when the guest never posted one."""
    return {"password": find(req, server_id, f"{RULE}show").encrypted_password}


def clear(req: Request, server_id: str) -> None:
    """Forget it. The guest keeps its password: nobody can ask for it any more."""
    instance = find(req, server_id, f"{RULE}clear")
    req.services.db.write(server_passwords.clear, instance.uuid)


ROUTES = [
    Route("GET", PATH, show, f"{RULE}show", response=schema.PASSWORD),
    Route("DELETE", PATH, clear, f"{RULE}clear", status=204),
]
