"""/images and their metadata: the image service for clients that know only this API (until 2.35, metadata until 2.38)."""
from __future__ import annotations

import datetime
from typing import Any

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.compute.views import images as view
from nova_lite.api.openstack import pagination, parameters, validation
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import quotas
from nova_lite.objects.image import ImageMeta

_COUNT = validation.multi({**parameters.QUERY_NUMBER, "minimum": 1})
_FILTERS = ("name", "status", "minRam", "minDisk", "server", "type", "changes-since")
LIST_QUERY = {"type": "object", "properties": {
    "marker": shapes.ANY_PARAM, **dict.fromkeys(("limit", "page_size", "offset"), _COUNT),
    **dict.fromkeys(_FILTERS, shapes.ANY_PARAM)},
              "patternProperties": {r"^property-": shapes.ANY_PARAM}, "additionalProperties": True}
_BRIEF = shapes.closed({"id": shapes.STRING, "name": shapes.MAYBE_STRING, "links": shapes.LINKS})
_FULL = shapes.plus(_BRIEF, {
    "status": {"enum": ["ACTIVE", "SAVING", "DELETED", "ERROR", "UNKNOWN"]}, "progress": shapes.INTEGER,
    "minDisk": shapes.INTEGER, "minRam": shapes.INTEGER, "metadata": shapes.TEXTS, "created": shapes.MAYBE_STRING,
    "updated": shapes.MAYBE_STRING, "OS-EXT-IMG-SIZE:size": shapes.INTEGER}, {
    "OS-DCF:diskConfig": {"enum": ["AUTO", "MANUAL"]},
    "server": shapes.closed({"id": shapes.STRING, "links": shapes.LINKS})})
LIST = shapes.listing("images", _BRIEF, paged=True)
DETAIL = shapes.listing("images", _FULL, paged=True)
IMAGE = shapes.wrapped("image", _FULL)

METADATA_IN = shapes.wrapped("metadata", parameters.METADATA)
META_IN = shapes.wrapped("meta", {**parameters.METADATA, "minProperties": 1, "maxProperties": 1})
METADATA = shapes.wrapped("metadata", shapes.TEXTS)
META = shapes.wrapped("meta", {**shapes.TEXTS, "minProperties": 1, "maxProperties": 1})

LAST, LAST_METADATA = "2.35", "2.38"


def index(req: Request) -> dict[str, Any]:
    """The images that the project may use, briefly."""
    found = _page(req)
    return {"images": [view.brief(req, image) for image in found], **_links(req, found, "images")}


def detail(req: Request) -> dict[str, Any]:
    """The images, all of each."""
    found = _page(req)
    return {"images": [view.full(req, image) for image in found], **_links(req, found, "images", "detail")}


def show(req: Request, image_id: str) -> dict[str, Any]:
    """One image."""
    return {"image": view.full(req, req.services.image.get(req.context, image_id))}


def delete(req: Request, image_id: str) -> None:
    """Remove an image of the project."""
    _own(req, image_id)
    req.services.image.delete(req.context, image_id)


def metadata_index(req: Request, image_id: str) -> dict[str, Any]:
    """All metadata."""
    return {"metadata": req.services.image.get(req.context, image_id).properties}


def metadata_show(req: Request, image_id: str, key: str) -> dict[str, Any]:
    """One item."""
    properties = req.services.image.get(req.context, image_id).properties
    if key not in properties:
        raise exception.MetadataItemNotFound()
    return {"meta": {key: properties[key]}}


def metadata_create(req: Request, image_id: str) -> dict[str, Any]:
    """Add or replace items."""
    image = _own(req, image_id)
    return {"metadata": _set(req, image, {**image.properties, **req.json_in["metadata"]})}


def metadata_update_all(req: Request, image_id: str) -> dict[str, Any]:
    """Replace all items."""
    return {"metadata": _set(req, _own(req, image_id), req.json_in["metadata"])}


def metadata_update(req: Request, image_id: str, key: str) -> dict[str, Any]:
    """Add or replace one item."""
    meta = req.json_in["meta"]
    if key not in meta:
        raise exception.Invalid("Request body and URI mismatch")
    image = _own(req, image_id)
    _set(req, image, {**image.properties, **meta})
    return {"meta": meta}


def metadata_delete(req: Request, image_id: str, key: str) -> None:
    """Remove one item."""
    image = _own(req, image_id)
    if key not in image.properties:
        raise exception.MetadataItemNotFound()
    _set(req, image, {name: value for name, value in image.properties.items() if name != key})


def _own(req: Request, image_id: str) -> ImageMeta:
    image = req.services.image.get(req.context, image_id)
    if image.protected or not (req.context.is_admin or image.owner == req.context.project_id):
        raise exception.Forbidden(f"You are not allowed to change image {image_id}.")
    return image


def _set(req: Request, image: ImageMeta, properties: dict[str, Any]) -> dict[str, Any]:
    with req.services.db.read() as conn:
        allowed = quotas.limits_for(conn, req.services.conf, req.context.project_id or "")["metadata_items"]
    if 0 <= allowed < len(properties):
        raise exception.MetadataLimitExceeded(allowed=allowed)
    return req.services.image.update(req.context, image.id, {"properties": properties}).properties


def _page(req: Request) -> list[ImageMeta]:
    found = sorted(req.services.image.list(req.context), key=lambda image: (image.created_at, image.id), reverse=True)
    found = [image for image in found if _passes(req, image)]
    marker = params.last(req, "marker")
    if marker is not None:
        places = [place for place, image in enumerate(found) if image.id == marker]
        if not places:
            raise exception.MarkerNotFound(marker=marker)
        found = found[places[0] + 1:]
    return found[:pagination.limit(req)]


def _passes(req: Request, image: ImageMeta) -> bool:
    wanted = {name: values[-1] for name, values in req.params_in.items()}
    server = wanted.get("server")
    kind = "snapshot" if "instance_uuid" in image.properties else "base"
    since = wanted.get("changes-since")
    return (wanted.get("name", image.name) == image.name
            and wanted.get("status", view.status(image)).upper() == view.status(image)
            and image.min_ram >= _number(wanted.get("minRam")) and image.min_disk >= _number(wanted.get("minDisk"))
            and (server is None or image.properties.get("instance_uuid") == server.rpartition("/")[2])
            and wanted.get("type", kind).lower() == kind
            and (since is None or _time(image.updated_at or image.created_at) >= _time(since))
            and all(str(image.properties.get(name.removeprefix("property-"))) == value
                    for name, value in wanted.items() if name.startswith("property-")))


def _number(text: str | None) -> int:
    if text is None:
        return 0
    number = units.number(text)
    if number is None:
        raise exception.InvalidInput(reason=f"'{text}' is not a number")
    return number


def _time(text: str) -> datetime.datetime:
    try:
        return units.parse_time(text)
    except ValueError:
        raise exception.InvalidInput(reason=f"Invalid time '{text}'") from None


def _links(req: Request, found: list[ImageMeta], *path: str) -> dict[str, Any]:
    return pagination.next_links(req, "images", [image.id for image in found], *path)


# no policy: the image service decides who may see and change what
_METADATA = "/images/{image_id}/metadata"
ROUTES = [
    Route("GET", "/images", index, None, last=LAST, query=LIST_QUERY, response=LIST),
    Route("GET", "/images/detail", detail, None, last=LAST, query=LIST_QUERY, response=DETAIL),
    Route("GET", "/images/{image_id}", show, None, last=LAST, response=IMAGE),
    Route("DELETE", "/images/{image_id}", delete, None, last=LAST, status=204),
    Route("GET", _METADATA, metadata_index, None, last=LAST_METADATA, response=METADATA),
    Route("POST", _METADATA, metadata_create, None, last=LAST_METADATA, body=METADATA_IN,
          response=METADATA),
    Route("PUT", _METADATA, metadata_update_all, None, last=LAST_METADATA, body=METADATA_IN,
          response=METADATA),
    Route("GET", _METADATA + "/{key}", metadata_show, None, last=LAST_METADATA, response=META),
    Route("PUT", _METADATA + "/{key}", metadata_update, None, last=LAST_METADATA, body=META_IN,
          response=META),
    Route("DELETE", _METADATA + "/{key}", metadata_delete, None, last=LAST_METADATA, status=204),
]
