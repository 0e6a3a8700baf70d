"""A Glance of a dictionary, for the driver's unit tests: as much of Image v2 as the driver speaks, faults on demand."""
from __future__ import annotations

import hashlib
import json
import re
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.fake_openstack import Answer, Call

_CORE = {"name": None, "visibility": "shared", "min_disk": 0, "min_ram": 0, "disk_format": None, "container_format": None,
         "protected": False, "tags": [], "os_hidden": False}


class FakeGlance:
    """``tokens`` says which project a token is of; the service's own sees everything."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.data: dict[str, bytes] = {}
        self.tokens: dict[str, str] = {}
        self.page = 1000
        self.cut = False

    def __call__(self, call: Call) -> Answer:
        parts = urlsplit(call.path)
        token = call.headers["X-Auth-Token"]
        project = None if token.startswith("service-") else self.tokens.get(token)
        if project is None and not token.startswith("service-"):
            return Answer(401, {"error": {"code": 401, "message": "who are you"}})
        match = re.fullmatch(r"/v2/images(?:/([^/]+)(/file)?)?", parts.path)
        if match is None:
            return Answer(404, b"<html><body><h1>404 Not Found</h1>No such path</body></html>")
        image_id, file = match.groups()
        if image_id is None:
            return self._create(call, project) if call.method == "POST" else self._list(parse_qs(parts.query), project)
        image = self.images.get(image_id)
        if image is None or not self._sees(project, image):
            return Answer(404, b"<html><head><title>404 Not Found</title></head><body>No image found</body></html>")
        return getattr(self, f"_{call.method.lower()}{'_file' if file else ''}")(call, image, project)

    @staticmethod
    def _sees(project: str | None, image: dict[str, Any]) -> bool:
        return project in (None, image["owner"]) or image["visibility"] in ("public", "community")

    def _create(self, call: Call, project: str | None) -> Answer:
        body = json.loads(call.body)
        image_id = body.get("id", str(uuid.uuid4()))
        if image_id in self.images:
            return Answer(409, {"message": f"Image ID {image_id} already exists!", "code": "409 Conflict", "title": "Conflict"})
        self.images[image_id] = {
            **_CORE, "owner": project, "size": None, "virtual_size": None, "checksum": None, "os_hash_algo": None,
            "os_hash_value": None, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
            "self": f"/v2/images/{image_id}", "file": f"/v2/images/{image_id}/file", "schema": "/v2/schemas/image",
            **body, "id": image_id, "status": "queued"}
        return Answer(201, self.images[image_id])

    def _list(self, query: dict[str, list[str]], project: str | None) -> Answer:
        seen = [i for i in self.images.values() if self._sees(project, i)]
        marker = query.get("marker", [None])[0]
        start = [i["id"] for i in seen].index(marker) + 1 if marker else 0
        page = seen[start:start + min(self.page, int(query["limit"][0]))]
        answer: dict[str, Any] = {"images": page, "first": "/v2/images", "schema": "/v2/schemas/images"}
        if start + len(page) < len(seen):
            answer["next"] = f"/v2/images?limit={query['limit'][0]}&marker={page[-1]['id']}"
        return Answer(200, answer)

    def _get(self, call: Call, image: dict[str, Any], project: str | None) -> Answer:
        return Answer(200, image)

    def _get_file(self, call: Call, image: dict[str, Any], project: str | None) -> Answer:
        if image["status"] == "deactivated" and project is not None:
            return Answer(403, {"message": "The requested image has been deactivated.", "code": "403 Forbidden"})
        if image["status"] == "queued":
            return Answer(204)
        return Answer(200, self.data[image["id"]], {"Content-Type": "application/octet-stream"}, cut=self.cut)

    def _put_file(self, call: Call, image: dict[str, Any], project: str | None) -> Answer:
        digest = hashlib.sha512(call.body).hexdigest()
        image |= {"status": "active", "size": len(call.body), "os_hash_algo": "sha512", "os_hash_value": digest,
                  "checksum": hashlib.md5(call.body).hexdigest()}  # noqa: S324
        self.data[image["id"]] = call.body
        return Answer(204)

    def _patch(self, call: Call, image: dict[str, Any], project: str | None) -> Answer:
        if call.headers["Content-Type"] != "application/openstack-images-v2.1-json-patch":
            return Answer(415, {"message": "Unsupported media type"})
        if project not in (None, image["owner"]):
            return Answer(403, {"message": "You are not authorized to complete modify_image action."})
        for change in json.loads(call.body):
            name = change["path"].removeprefix("/").replace("~1", "/").replace("~0", "~")
            if (change["op"] == "add") == (name in image):
                return Answer(409, {"message": f"Property {name} is there, or not there"})
            if change["op"] == "remove":
                del image[name]
            else:
                image[name] = change["value"]
        return Answer(200, image)

    def _delete(self, call: Call, image: dict[str, Any], project: str | None) -> Answer:
        if image["protected"]:
            return Answer(403, {"message": f"Image {image['id']} is protected and cannot be deleted."})
        del self.images[image["id"]]
        return Answer(204)
