"""POST /servers/{server_id}/action: rebuild."""
from __future__ import annotations

from typing import Any

import webob
from oslo_utils import strutils

from nova_lite.api.compute.schemas import server_rebuild as schema
from nova_lite.api.compute.schemas.shapes import LOCATION
from nova_lite.api.compute.servers import RULE, seen, short_ipv6
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api.create import password_of
from nova_lite.compute.api.rebuild import RebuildRequest
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member

PATH = "/servers/{server_id}/action"
_TRUSTED_CERTS = member(f"{RULE}rebuild:trusted_certs", "Rebuild a server with trusted image certificates (2.63).",
                        "POST /servers/{server_id}/action (rebuild)")
_COLUMNS = {"name": "display_name", "description": "display_description", "hostname": "hostname", "user_data": "user_data"}


def rebuild(req: Request, instance: Instance) -> webob.Response:
    """Begin to put the server on a new root disk; the answer shows it as it is now, with the password that it will have."""
    asked = req.argument
    request = RebuildRequest(
        image_id=asked["imageRef"], values=_values(asked), metadata=asked.get("metadata"),
        personality=asked.get("personality", []), key_name=asked.get("key_name", ""),
        disk_config=asked.get("OS-DCF:diskConfig"), trusted_certs=asked.get("trusted_image_certificates"),
        preserve_ephemeral=strutils.bool_from_string(asked.get("preserve_ephemeral")), onto_volume=req.since("2.93"))
    if "trusted_image_certificates" in asked:
        req.can(_TRUSTED_CERTS, instance)
    if req.services.conf.api.enable_instance_password:
        request.admin_password = password_of(asked)
    req.services.compute.rebuild(req.context, instance, request)
    server = _answer(req, instance.uuid, request)
    return webob.Response(status=202, json_body={"server": server}, location=req.link("self", "servers", instance.uuid))


def _values(asked: dict[str, Any]) -> dict[str, Any]:
    """Columns of the server."""
    values = {column: asked[key] for key, column in _COLUMNS.items() if key in asked}
    if "accessIPv4" in asked:
        values["access_ip_v4"] = asked["accessIPv4"] or None
    if "accessIPv6" in asked:
        values["access_ip_v6"] = short_ipv6(asked["accessIPv6"])
    if "trusted_image_certificates" in asked:
        values["trusted_certs"] = asked["trusted_image_certificates"]
    return values


def _answer(req: Request, server_id: str, request: RebuildRequest) -> dict[str, Any]:
    server = seen(req, server_id, short=not req.since("2.75")).view
    server.pop("OS-EXT-SRV-ATTR:user_data", None)
    now = req.services.compute.get(req.context, server_id)
    if req.since("2.54"):
        server["key_name"] = now.key_name
    if req.since("2.57"):
        server["user_data"] = now.user_data
    if request.admin_password is not None:
        server["adminPass"] = request.admin_password
    return server


ROUTES = [
    Route("POST", PATH, rebuild, member(f"{RULE}rebuild", "Rebuild a server."), action="rebuild", body=schema.REBUILD,
          response=schema.REBUILD_ANSWER, status=202, headers=LOCATION),
]
RULES = [_TRUSTED_CERTS]
