"""Image v2, as much as the stock clients need, on the embedded image driver."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import webob
from oslo_config import cfg

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.embedded.api.wsgi import Application, Request, Route, json_response, page_size
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.embedded.image.fields import COMMUNITY, PUBLIC
from nova_lite.embedded.image.local import LocalImages
from nova_lite.image import base as image_base
from nova_lite.objects.image import ImageMeta

CHUNK = 64 * 1024           # kept for each upload, however slow it is
FIELDS = ("name", "visibility", "min_disk", "min_ram", "disk_format", "container_format", "tags", "protected")


def factory(conf: cfg.ConfigOpts) -> Application:
    """The WSGI application, mounted at /image."""
    images = image_base.load(conf)
    if isinstance(images, LocalImages):
        images.tidy()
    api = ImageHandlers(images)
    return Application(LocalIdentity(f"{conf.state_path}/identity"), [
        Route("GET", "/", api.versions, public=True),
        Route("GET", "/versions", api.versions, public=True),
        Route("GET", "/v2/images", api.index),
        Route("POST", "/v2/images", api.create, 201),
        Route("GET", "/v2/images/{image_id}", api.show),
        Route("PATCH", "/v2/images/{image_id}", api.update),
        Route("DELETE", "/v2/images/{image_id}", api.delete),
        Route("PUT", "/v2/images/{image_id}/file", api.upload),
        Route("GET", "/v2/images/{image_id}/file", api.download),
    ], over_quota=413)


class ImageHandlers:
    """Handlers over the image driver, which checks visibility itself."""

    def __init__(self, images: image_base.ImageAPI) -> None:
        self.images = images

    def versions(self, req: Request) -> webob.Response:
        """GET /image"""
        return json_response({"versions": [{"id": "v2.9", "status": "CURRENT", "links": [
            {"rel": "self", "href": f"{req.application_url}/v2/"}]}]}, 200 if req.path_info.startswith("/versions") else 300)

    def index(self, req: Request) -> dict[str, Any]:
        """GET /v2/images: filters name, id, status, visibility; paging by marker and limit."""
        views = sorted((_view(i) for i in self.images.list(_context(req))), key=lambda v: (v["created_at"], v["id"]),
                       reverse=True)
        for key in ("name", "id", "status", "visibility", "owner"):
            wanted = req.GET.get(key)
            if wanted is not None:
                wanted = wanted.removeprefix("in:").strip('"')
                views = [v for v in views if v[key] == wanted]
        ids = [v["id"] for v in views]
        if req.GET.get("marker") in ids:
            views = views[ids.index(req.GET["marker"]) + 1:]
        return {"images": views[:page_size(req)], "first": "/v2/images", "schema": "/v2/schemas/images"}

    def show(self, req: Request, image_id: str) -> dict[str, Any]:
        """GET /v2/images/{id}"""
        return _view(self.images.get(_context(req), image_id))

    def create(self, req: Request) -> dict[str, Any]:
        """POST /v2/images"""
        body = req.json_object()
        _check_visibility(req, body.get("visibility"))
        values = {k: body[k] for k in FIELDS if k in body}
        values["properties"] = {k: v for k, v in body.items() if k not in FIELDS and k not in ("id", "owner")}
        values.update(owner=req.token.project_id, visibility=body.get("visibility", "private"))
        if "id" in body:
            values["id"] = body["id"]
        return _view(self.images.create(_context(req), values))

    def update(self, req: Request, image_id: str) -> dict[str, Any]:
        """PATCH /v2/images/{id}: a list of JSON-patch operations on top-level fields."""
        image = self._owned(req, image_id)
        try:
            operations = [(str(o["op"]), str(o["path"]).lstrip("/"), o.get("value")) for o in req.json_value()]
        except (ValueError, TypeError, KeyError):
            raise exception.MalformedRequestBody() from None
        values: dict[str, Any] = {"properties": dict(image.properties)}
        for operation, name, value in operations:
            if name in FIELDS:
                if operation == "remove":
                    raise exception.Forbidden(f"Attribute '{name}' may not be removed.")
                if name == "visibility":
                    _check_visibility(req, value)
                values[name] = value
            elif operation == "remove":
                values["properties"].pop(name, None)
            else:
                values["properties"][name] = value
        return _view(self.images.update(_context(req), image_id, values))

    def delete(self, req: Request, image_id: str) -> webob.Response:
        """DELETE /v2/images/{id}"""
        if self._owned(req, image_id).protected:
            raise exception.Forbidden(f"Image {image_id} is protected and cannot be deleted.")
        self.images.delete(_context(req), image_id)
        return webob.Response(status=204, content_type=None)

    def upload(self, req: Request, image_id: str) -> webob.Response:
        """PUT /v2/images/{id}/file"""
        if self._owned(req, image_id).status != "queued":
            raise exception.Conflict(f"Image {image_id} has data already.")
        self.images.upload(_context(req), image_id, _chunks(req))
        return webob.Response(status=204, content_type=None)

    def download(self, req: Request, image_id: str) -> webob.Response:
        """GET /v2/images/{id}/file"""
        image = self.images.get(_context(req), image_id)
        return webob.Response(app_iter=self.images.read(_context(req), image_id), content_length=image.size,
                              content_type="application/octet-stream")

    def _owned(self, req: Request, image_id: str) -> ImageMeta:
        image = self.images.get(_context(req), image_id)
        if image.owner != req.token.project_id and not req.is_admin:
            raise exception.Forbidden(f"You are not permitted to change image {image_id}.")
        return image


def _check_visibility(req: Request, visibility: object) -> None:
    """Raise Forbidden: only an admin may make an image that all projects can boot."""
    if visibility in (PUBLIC, COMMUNITY) and not req.is_admin:
        raise exception.Forbidden(f"Only an admin may make the visibility of an image {visibility}.")


def _chunks(req: Request) -> Iterator[bytes]:
    while chunk := req.body_file.read(CHUNK):
        yield chunk


def _context(req: Request) -> RequestContext:
    return RequestContext(user_id=req.token.user_id, project_id=req.token.project_id, roles=req.token.roles,
                          is_admin=req.is_admin, overwrite=False)


def _view(image: ImageMeta) -> dict[str, Any]:
    view = {k: str(v) for k, v in image.properties.items()}
    return view | {
        "id": image.id, "name": image.name, "status": image.status, "visibility": image.visibility, "owner": image.owner,
        "size": image.size if image.status == "active" else None, "virtual_size": None, "min_disk": image.min_disk,
        "min_ram": image.min_ram, "disk_format": image.disk_format, "container_format": image.container_format,
        "checksum": None, "os_hash_algo": image.hash_algo if image.checksum else None, "os_hash_value": image.checksum,
        "os_hidden": False, "protected": image.protected, "tags": image.tags, "created_at": image.created_at,
        "updated_at": image.updated_at, "self": f"/v2/images/{image.id}", "file": f"/v2/images/{image.id}/file",
        "schema": "/v2/schemas/image"}
