"""/servers/{server_id}/tags: up to 50 words of the user's own, by which lists can be filtered (2.26)."""
from __future__ import annotations

from typing import Any

import webob

from nova_lite import exception
from nova_lite.api.compute.schemas.servers import TAG, TAGS
from nova_lite.api.compute.schemas.shapes import LOCATION, NO_BODY
from nova_lite.api.openstack.request_body import read_body
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.validation import Validator
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member, reader

Json = dict[str, Any]

BODY: Json = {"type": "object", "properties": {"tags": TAGS}, "required": ["tags"], "additionalProperties": False}

RULE = "os_compute_api:os-server-tags:"
PATH = "/servers/{server_id}/tags"
_TAG = Validator(TAG)


def index(_req: Request, instance: Instance) -> dict[str, Any]:
    """All tags."""
    return {"tags": instance.tags}


def update_all(req: Request, instance: Instance) -> dict[str, Any]:
    """Make the body's tags the only ones."""
    return {"tags": req.services.compute.replace_tags(req.context, instance.uuid, req.json_in["tags"])}


def delete_all(req: Request, instance: Instance) -> None:
    """Remove all tags."""
    req.services.compute.replace_tags(req.context, instance.uuid, [])


def show(_req: Request, instance: Instance, tag: str) -> None:
    """Whether the server has the tag: nothing, or 404."""
    if tag not in instance.tags:
        raise exception.TagNotFound(server_id=instance.uuid, tag=tag)


def update(req: Request, instance: Instance, tag: str) -> webob.Response:
    """Add a tag: 201 for a new tag, 204 for one that the server has."""
    _TAG.check(tag)
    if read_body(req.environ).strip() not in (b"", b"null"):
        raise exception.ValidationError(detail="The tag stands in the path; there is no body")
    if not req.services.compute.add_tag(req.context, instance.uuid, tag):
        return webob.Response(status=204)
    return webob.Response(status=201, location=req.link("self", "servers", instance.uuid, "tags", tag), content_type=None)


def delete(req: Request, instance: Instance, tag: str) -> None:
    """Remove a tag."""
    req.services.compute.remove_tag(req.context, instance.uuid, tag)


ROUTES = [
    Route("GET", PATH, index, reader(f"{RULE}index", "List the tags of a server."), first="2.26", response=BODY),
    Route("PUT", PATH, update_all, member(f"{RULE}update_all", "Replace the tags of a server."), first="2.26", body=BODY,
          response=BODY),
    Route("DELETE", PATH, delete_all, member(f"{RULE}delete_all", "Delete the tags of a server."), first="2.26", status=204),
    Route("GET", PATH + "/{tag}", show, reader(f"{RULE}show", "Look whether a server has a tag."), first="2.26", status=204),
    Route("PUT", PATH + "/{tag}", update, member(f"{RULE}update", "Add a tag to a server."), first="2.26", status=201, also=204,
          response=NO_BODY, headers=LOCATION),
    Route("DELETE", PATH + "/{tag}", delete, member(f"{RULE}delete", "Delete a tag of a server."), first="2.26", status=204),
]
