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
from nova_lite.policies.base import owner

SAFE = set(string.ascii_letters + string.digits + "_- ")
SAFE_292 = SAFE | set("@.")
_RULE = "os_compute_api:os-keypairs"


def index(req: Request) -> dict[str, Any]:
    """A user's key pairs by name."""
    user = _user(req)
    size, marker = (pagination.limit(req), params.last(req, "marker")) if req.since("2.35") else (None, None)
    with req.services.db.read() as conn:
        found = keypairs.list_page(conn, user, size, marker)
    names = [keypair["name"] for keypair in found]
    more = pagination.next_links(req, "keypairs", names, "os-keypairs") if req.since("2.35") else {}
    return {"keypairs": [{"keypair": _brief(req, keypair)} for keypair in found], **more}


def show(req: Request, keypair_name: str) -> dict[str, Any]:
    """One key pair."""
    user = _user(req)
    with req.services.db.read() as conn:
        keypair = keypairs.get(conn, user, keypair_name)
    return {"keypair": _brief(req, keypair) | {
        "user_id": keypair["user_id"], "id": keypair["id"], "deleted": False, "deleted_at": None,
        "created_at": units.isotime_micro(keypair["created_at"]), "updated_at": units.isotime_micro(keypair["updated_at"])}}


def create(req: Request) -> dict[str, Any]:
    """Store a key, or make a pair (until 2.91): its private key is in this answer and nowhere else."""
    body = req.json_in["keypair"]
    user = _owner_of_new(req)["user_id"]
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
    req.services.db.write(keypairs.delete, _user(req), keypair_name)


def _user(req: Request) -> str:
    return (params.last(req, "user_id") if req.since("2.10") else None) or req.context.user_id or ""


def _owner(req: Request, **_path: str) -> dict[str, Any]:
    return {"user_id": _user(req), "project_id": req.context.project_id}


def _owner_of_new(req: Request) -> dict[str, Any]:
    return {"user_id": req.json_in["keypair"].get("user_id", req.context.user_id), "project_id": req.context.project_id}


def _brief(req: Request, keypair: Mapping[str, Any]) -> dict[str, Any]:
    view = {"name": keypair["name"], "public_key": keypair["public_key"], "fingerprint": keypair["fingerprint"]}
    if req.since("2.2"):
        view["type"] = keypair["type"]
    return view


ROUTES = [
    Route("GET", "/os-keypairs", index, owner(f"{_RULE}:index", "List key pairs."), target=_owner, query=schema.LIST_QUERY,
          response=schema.LIST),
    Route("POST", "/os-keypairs", create, owner(f"{_RULE}:create", "Create a key pair."), target=_owner_of_new,
          body=schema.CREATE, response=schema.CREATED, status={"2.1": 200, "2.2": 201}),
    Route("GET", "/os-keypairs/{keypair_name}", show, owner(f"{_RULE}:show", "Show a key pair."), target=_owner,
          query=schema.ONE_QUERY, response=schema.KEYPAIR),
    Route("DELETE", "/os-keypairs/{keypair_name}", delete, owner(f"{_RULE}:delete", "Delete a key pair."), target=_owner,
          query=schema.ONE_QUERY, status={"2.1": 202, "2.2": 204}),
]
