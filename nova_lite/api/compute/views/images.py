"""The view of an image in the Compute API."""
from __future__ import annotations

from typing import Any

from oslo_utils import strutils

from nova_lite.api.openstack import links
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.image import ImageMeta

STATUS = {"active": "ACTIVE", "queued": "SAVING", "saving": "SAVING", "importing": "SAVING", "uploading": "SAVING",
          "deleted": "DELETED", "pending_delete": "DELETED", "killed": "ERROR"}
PROGRESS = {"queued": 25, "saving": 50, "active": 100}


def status(image: ImageMeta) -> str:
    """The Compute API's word for the status."""
    return STATUS.get(image.status, "UNKNOWN")


def brief(req: Request, image: ImageMeta) -> dict[str, Any]:
    """One item of the short list."""
    alternate = {"rel": "alternate", "type": "application/vnd.openstack.image",
                 "href": req.link("bookmark", "images", image.id)}
    return {"id": image.id, "name": image.name, "links": [*links.links(req, "images", image.id), alternate]}


def full(req: Request, image: ImageMeta) -> dict[str, Any]:
    """All there is to see."""
    view = brief(req, image) | {
        "status": status(image), "progress": PROGRESS.get(image.status, 0), "minDisk": image.min_disk,
        "minRam": image.min_ram, "metadata": image.properties, "created": _time(image.created_at),
        "updated": _time(image.updated_at), "OS-EXT-IMG-SIZE:size": image.size}
    auto = image.properties.get("auto_disk_config")
    if auto is not None:
        view["OS-DCF:diskConfig"] = "AUTO" if strutils.bool_from_string(auto) else "MANUAL"
    server = image.properties.get("instance_uuid")
    if server is not None:
        view["server"] = {"id": server, "links": links.links(req, "servers", server)}
    return view


def _time(text: str) -> str | None:
    return text.partition(".")[0].partition("+")[0].rstrip("Z") + "Z" if text else None
