"""/os-keypairs: the public keys of a user."""
from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from nova_lite import exception, units
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import keypairs as schema
from nova_lite.api.openstack import pagination
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import keypairs
from nova_lite.policies.base import Rule, owner

SAFE = set(string.ascii_letters + string.digits + "_- ")
SAFE_292 = SAFE | set("@.")
_RULE = "os_compute_api:os-keypairs"
_INDEX = owner(f"{_RULE}:index", "List key pairs.", "GET /os-keypairs")
_CREATE = owner(f"{_RULE}:create", "Create a key pair.", "POST /os-keypairs")
_SHOW = owner(f"{_RULE}:show", "Show a key pair.", "GET /os-keypairs/{keypair_name}")
_DELETE = owner(f"{_RULE}:delete", "Delete a key pair.", "DELETE /os-keypairs/{keypair_name}")


def index(req: Request) -> dict[str, Any]:
    """A user's key pairs by name."""
    user = _user(req, _INDEX)
    size, marker = (pagination.limit(req), params.last(req, "marker")) if req.since("2.35") else (None, None)
    with req.services.db.read() as conn:
        found = keypairs.list_page(conn, user, size, marker)
    names = [keypair["name"] for keypair in found]
    more = pagination.next_links(req, "keypairs", names, "os-keypairs") if req.since("2.35") else {}
    return {"keypairs": [{"keypair": _brief(req, keypair)} for keypair in found], **more}


def show(req: Request, keypair_name: str) -> dict[str, Any]:
    """One key pair."""
    user = _user(req, _SHOW)
    with req.services.db.read() as conn:
        keypair = keypairs.get(conn, user, keypair_name)
    return {"keypair": _brief(req, keypair) | {
        "user_id": keypair["user_id"], "id": keypair["id"], "deleted": False, "deleted_at": None,
        "created_at": units.isotime_micro(keypair["created_at"]), "updated_at": units.isotime_micro(keypair["updated_at"])}}


def create(req: Request) -> dict[str, Any]:
    """Store a key, or make a pair (until 2.91): its private key is in this answer and nowhere else."""
    body = req.json_in["keypair"]
    user = body.get("user_id", req.context.user_id)
    req.can(_CREATE, {"user_id": user, "project_id": req.context.project_id})
    name, kind, public = body["name"], body.get("type", "ssh"), body.get("public_key")
    if set(name) - (SAFE_292 if req.since("2.92") else SAFE):
        raise exception.InvalidKeypair(reason="Keypair name contains unsafe characters")
    from nova_lite import crypto  # 7 MiB of certificates and keys, for those who make keys

    private = None
    if public is not None:
        fingerprint = crypto.x509_fingerprint(public) if kind == "x509" else crypto.ssh_fingerprint(public)
    elif kind == "x509":
        private, public, fingerprint = crypto.make_x509_pair(user)
    else:
        private, public, fingerprint = crypto.make_ssh_pair()
    values = {"name": name, "user_id": user, "type": kind, "fingerprint": fingerprint, "public_key": public}
    keypair = req.services.db.write(keypairs.create, req.services.conf, req.context.project_id, values)
    view = _brief(req, keypair) | {"user_id": user}
    if private is not None:
        view["private_key"] = private
    return {"keypair": view}


def delete(req: Request, keypair_name: str) -> None:
    """Forget a key pair; servers that have it keep it."""
    req.services.db.write(keypairs.delete, _user(req, _DELETE), keypair_name)


def _user(req: Request, rule: Rule) -> str:
    user: str = (params.last(req, "user_id") if req.since("2.10") else None) or req.context.user_id or ""
    req.can(rule, {"user_id": user, "project_id": req.context.project_id})
    return user


def _brief(req: Request, keypair: Mapping[str, Any]) -> dict[str, Any]:
    view = {"name": keypair["name"], "public_key": keypair["public_key"], "fingerprint": keypair["fingerprint"]}
    if req.since("2.2"):
        view["type"] = keypair["type"]
    return view


ROUTES = [
    Route("GET", "/os-keypairs", index, None, query=schema.LIST_QUERY, response=schema.LIST),
    Route("POST", "/os-keypairs", create, None, body=schema.CREATE, response=schema.CREATED,
          status={"2.1": 200, "2.2": 201}),
    Route("GET", "/os-keypairs/{keypair_name}", show, None, query=schema.ONE_QUERY, response=schema.KEYPAIR),
    Route("DELETE", "/os-keypairs/{keypair_name}", delete, None, query=schema.ONE_QUERY, status={"2.1": 202, "2.2": 204}),
]
RULES = [_INDEX, _CREATE, _SHOW, _DELETE]
