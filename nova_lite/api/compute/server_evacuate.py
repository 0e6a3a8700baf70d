"""POST /servers/{server_id}/action: evacuate."""
from __future__ import annotations

from typing import Any

from oslo_utils import strutils

from nova_lite import exception
from nova_lite.api.compute.schemas import server_evacuate as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api.create import password_of
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin

PATH = "/servers/{server_id}/action"


def evacuate(req: Request, instance: Instance) -> dict[str, Any] | None:
    """Build a server of a dead host anew elsewhere. Whether disks are shared the hosts find out themselves; until 2.13 the user
    says so, and then the password in the disk cannot be changed."""
    asked = req.argument
    shared = not req.since("2.14") and strutils.bool_from_string(asked["onSharedStorage"], strict=True)
    if shared and "adminPass" in asked:
        raise exception.Invalid("admin password can't be changed on existing disk")
    password = None if shared else password_of(asked)
    host = asked.get("host")
    forced = strutils.bool_from_string(asked.get("force", False), strict=True)
    if forced and not host:
        raise exception.Invalid("force needs the host that the server is forced onto")
    force = host is not None and (forced or not req.since("2.29"))
    req.services.compute.evacuate(req.context, instance, host, force, req.since("2.95"), password)
    if req.since("2.14") or not req.services.conf.api.enable_instance_password:
        return None
    return {"adminPass": password}


ROUTES = [
    Route("POST", PATH, evacuate, admin("os_compute_api:os-evacuate", "Rebuild a server of a failed host elsewhere."),
          action="evacuate", body=schema.EVACUATE, response=schema.EVACUATE_ANSWER, status=200),
]
