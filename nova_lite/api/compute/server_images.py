"""POST /servers/{server_id}/action: createImage and createBackup."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import webob

from nova_lite import exception
from nova_lite.api.compute.schemas import server_actions as schema
from nova_lite.api.compute.schemas.shapes import LOCATION
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member

PATH = "/servers/{server_id}/action"
_RULE = "os_compute_api:servers:create_image"
_OF_VOLUMES = member(f"{_RULE}:allow_volume_backed", "Make an image of a volume-backed server.",
                     "POST /servers/{server_id}/action (createImage)")
_HEADERS = {"2.1": LOCATION, "2.45": None}


def create_image(req: Request, instance: Instance) -> dict[str, Any] | webob.Response:
    """Begin to make an image of the server's disk; of snapshots, at once, where its root disk is a volume."""
    if instance.is_volume_backed:
        req.can(_OF_VOLUMES, instance)
    asked, compute = req.argument, req.services.compute
    create = compute.create_image_of_volumes if instance.is_volume_backed else compute.create_image
    return _answer(req, create(req.context, instance, asked["name"], _metadata(req, instance)))


def create_backup(req: Request, instance: Instance) -> dict[str, Any] | webob.Response:
    """Begin to make an image that takes the place of the oldest of its kind."""
    if instance.is_volume_backed:
        raise exception.Invalid("Backup is not supported for volume-backed instances.")
    asked = req.argument
    rotation = int(asked["rotation"])
    image_id = req.services.compute.create_backup(req.context, instance, asked["name"], _metadata(req, instance),
                                                  asked["backup_type"], rotation)
    return _answer(req, image_id, shown=rotation > 0)


def _metadata(req: Request, instance: Instance) -> Mapping[str, str]:
    """Those of the request; from 2.39 on no quota of ours holds for them, as the Image service has its own."""
    metadata: Mapping[str, str] = req.argument.get("metadata") or {}
    if not req.since("2.39"):
        req.services.compute.check_image_metadata(instance, metadata)
    return metadata


def _answer(req: Request, image_id: str, shown: bool = True) -> dict[str, Any] | webob.Response:
    """Which image it is; until 2.44 where, if it is to stay (``shown``)."""
    if req.since("2.45"):
        return {"image_id": image_id}
    headers = [("Location", req.link("bookmark", "images", image_id))] if shown else []
    return webob.Response(status=202, headerlist=headers)


ROUTES = [
    Route("POST", PATH, create_image, member(_RULE, "Make an image of a server."), action="createImage",
          body=schema.CREATE_IMAGE, status=202, response=schema.IMAGE_ANSWER, headers=_HEADERS),
    Route("POST", PATH, create_backup, member("os_compute_api:os-create-backup", "Create a backup of a server."),
          action="createBackup", body=schema.CREATE_BACKUP, status=202, response=schema.IMAGE_ANSWER, headers=_HEADERS),
]
RULES = [_OF_VOLUMES]
