"""Block Storage v3, as much as the stock clients need, on the embedded volume driver."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webob
from oslo_config import cfg

from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.embedded.api import fields
from nova_lite.embedded.api.wsgi import Application, Request, Route, json_response, page_size
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.embedded.volume.local import ATTACHED, MULTIATTACH, ZONE, LocalVolumes, StoredSnapshot
from nova_lite.objects.volume import Volume

TYPES = {"local": "Files of this machine", MULTIATTACH: "Files of this machine, for several servers at once"}
MAX_VERSION = "3.44"
_UNLIMITED = ("volumes", "snapshots", "backups", "backup_gigabytes", "groups", "per_volume_gigabytes")


def factory(conf: cfg.ConfigOpts) -> Application:
    """The WSGI application, mounted at /volume. A project's id in the path is optional, as in Cinder of today."""
    volumes = LocalVolumes(conf)
    volumes.tidy()
    api = VolumeHandlers(volumes, conf.volume.local_quota_gb)
    table: list[tuple[str, str, Callable[..., Any], int]] = [
        ("GET", "/volumes", api.index, 200), ("GET", "/volumes/detail", api.detail, 200), ("POST", "/volumes", api.create, 202),
        ("GET", "/volumes/{volume_id}", api.show, 200), ("PUT", "/volumes/{volume_id}", api.update, 200),
        ("DELETE", "/volumes/{volume_id}", api.delete, 202), ("POST", "/volumes/{volume_id}/action", api.action, 202),
        ("POST", "/volumes/{volume_id}/metadata", api.set_metadata, 200),
        ("DELETE", "/volumes/{volume_id}/metadata/{key}", api.delete_metadata, 200),
        ("GET", "/snapshots", api.snapshots, 200), ("GET", "/snapshots/detail", api.snapshots, 200),
        ("POST", "/snapshots", api.create_snapshot, 202), ("GET", "/snapshots/{snapshot_id}", api.show_snapshot, 200),
        ("DELETE", "/snapshots/{snapshot_id}", api.delete_snapshot, 202),
        ("GET", "/attachments", api.attachments, 200), ("GET", "/attachments/detail", api.attachments, 200),
        ("GET", "/types", api.types, 200), ("GET", "/types/{name}", api.show_type, 200),
        ("GET", "/limits", api.limits, 200), ("GET", "/os-quota-sets/{project}", api.quota, 200),
        ("GET", "/os-availability-zone", api.zones, 200)]
    routes = [Route(method, root + path, _without_project(handler), status) for method, path, handler, status in table
              for root in ("/v3", "/v3/{project_id}")]
    return Application(LocalIdentity(f"{conf.state_path}/identity"), [
        Route("GET", "/", api.versions, public=True), Route("GET", "/v3", api.version, public=True), *routes], over_quota=413)


def _without_project(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The path without its project, which must be the project of the token."""
    def call(req: Request, project_id: str | None = None, **arguments: str) -> Any:
        if project_id not in (None, req.token.project_id):
            raise exception.NotFound(f"Project {project_id} is not that of the token.")
        return handler(req, **arguments)

    return call


class VolumeHandlers:
    """Handlers over the volume driver, which checks whose volume it is."""

    def __init__(self, volumes: LocalVolumes, quota_gb: int) -> None:
        self.volumes, self._quota_gb = volumes, quota_gb

    def versions(self, req: Request) -> webob.Response:
        """GET /volume"""
        return json_response({"versions": [_version(req)]}, 300)

    def version(self, req: Request) -> dict[str, Any]:
        """GET /volume/v3"""
        return {"versions": [_version(req)]}

    def index(self, req: Request) -> dict[str, Any]:
        """GET /volumes"""
        return {"volumes": [{k: v[k] for k in ("id", "name", "links")} for v in self._list(req)]}

    def detail(self, req: Request) -> dict[str, Any]:
        """GET /volumes/detail: filters name, status, metadata and all_tenants; paging by marker and limit."""
        return {"volumes": self._list(req)}

    def create(self, req: Request) -> dict[str, Any]:
        """POST /volumes"""
        body = _part(req, "volume")
        if body.get("source_volid") or body.get("backup_id"):
            raise exception.InvalidInput(reason="a volume is made blank, from an image or from a snapshot")
        kind, snapshot = fields.text(body, "volume_type"), fields.text(body, "snapshot_id")
        if kind and kind not in TYPES:
            raise exception.NotFound(f"Volume type {kind} could not be found.")
        size = fields.integer(body, "size")
        if size is None and snapshot:
            size = self.volumes.get_snapshot(_context(req), snapshot).size
        if size is None:
            raise exception.InvalidInput(reason="size must be a number of GiB")
        made = self.volumes.create(
            _context(req), size, fields.text(body, "name") or "", fields.text(body, "description") or "",
            image_id=fields.text(body, "imageRef"), snapshot_id=snapshot, volume_type=kind,
            availability_zone=fields.text(body, "availability_zone"), metadata=fields.texts(body, "metadata"))
        return {"volume": _view(req, made)}

    def show(self, req: Request, volume_id: str) -> dict[str, Any]:
        """GET /volumes/{id}"""
        return {"volume": _view(req, self.volumes.get(_context(req), volume_id))}

    def update(self, req: Request, volume_id: str) -> dict[str, Any]:
        """PUT /volumes/{id}: name, description, metadata"""
        body = _part(req, "volume")
        values: dict[str, Any] = {k: fields.text(body, k) or "" for k in ("name", "description") if k in body}
        if "metadata" in body:
            values["metadata"] = fields.texts(body, "metadata")
        return {"volume": _view(req, self.volumes.update(_context(req), volume_id, values))}

    def delete(self, req: Request, volume_id: str) -> webob.Response:
        """DELETE /volumes/{id}"""
        self.volumes.get(_context(req), volume_id)
        self.volumes.delete(_context(req), volume_id)
        return webob.Response(status=202, content_type=None)

    def action(self, req: Request, volume_id: str) -> webob.Response:
        """POST /volumes/{id}/action: os-extend and os-set_bootable"""
        body = req.json_object()
        if "os-extend" in body:
            size = fields.integer(_part(req, "os-extend"), "new_size")
            if size is None:
                raise exception.InvalidInput(reason="new_size must be a number of GiB")
            self.volumes.extend(_context(req), volume_id, size)
        elif "os-set_bootable" in body:
            if "bootable" not in _part(req, "os-set_bootable"):
                raise exception.InvalidInput(reason="bootable is missing")
            bootable = fields.flag(_part(req, "os-set_bootable"), "bootable")
            self.volumes.update(_context(req), volume_id, {"bootable": bootable})
        else:
            raise exception.InvalidInput(reason=f"there is no action {', '.join(body)} here")
        return webob.Response(status=202, content_type=None)

    def set_metadata(self, req: Request, volume_id: str) -> dict[str, Any]:
        """POST /volumes/{id}/metadata"""
        have = self.volumes.get(_context(req), volume_id).metadata
        wanted = have | fields.texts({"metadata": _part(req, "metadata")}, "metadata")
        return {"metadata": self.volumes.update(_context(req), volume_id, {"metadata": wanted}).metadata}

    def delete_metadata(self, req: Request, volume_id: str, key: str) -> webob.Response:
        """DELETE /volumes/{id}/metadata/{key}"""
        have = self.volumes.get(_context(req), volume_id).metadata
        if key not in have:
            raise exception.NotFound(f"Volume {volume_id} has no metadata with key {key}.")
        self.volumes.update(_context(req), volume_id, {"metadata": {k: v for k, v in have.items() if k != key}})
        return webob.Response(status=200, content_type=None)

    def snapshots(self, req: Request) -> dict[str, Any]:
        """GET /snapshots, with and without /detail"""
        views = [_snapshot_view(s) for s in self.volumes.list_snapshots(_context(req))]
        return {"snapshots": _page(req, [s for s in views if _fits(req, s, ("name", "status", "volume_id"))])}

    def create_snapshot(self, req: Request) -> dict[str, Any]:
        """POST /snapshots"""
        body = _part(req, "snapshot")
        made = self.volumes.create_snapshot(_context(req), fields.needed(body, "volume_id"), fields.text(body, "name") or "",
                                            fields.text(body, "description") or "", fields.flag(body, "force"))
        return {"snapshot": _snapshot_view(made)}

    def show_snapshot(self, req: Request, snapshot_id: str) -> dict[str, Any]:
        """GET /snapshots/{id}"""
        return {"snapshot": _snapshot_view(self.volumes.get_snapshot(_context(req), snapshot_id))}

    def delete_snapshot(self, req: Request, snapshot_id: str) -> webob.Response:
        """DELETE /snapshots/{id}"""
        self.volumes.get_snapshot(_context(req), snapshot_id)
        self.volumes.delete_snapshot(_context(req), snapshot_id)
        return webob.Response(status=202, content_type=None)

    def attachments(self, req: Request) -> dict[str, Any]:
        """GET /attachments, with and without /detail: those of the project's servers"""
        found = self.volumes.all_attachments(_whose(req))
        views: list[dict[str, Any]] = [
            {"id": a.id, "status": a.status, "instance": a.server_id, "volume_id": a.volume_id, "attached_at": "",
             "detached_at": "", "attach_mode": "rw" if a.status == ATTACHED else "null", "connection_info": {}} for a in found]
        return {"attachments": _page(req, [v for v in views if _fits(req, v, ("status", "volume_id"))])}

    def types(self, req: Request) -> dict[str, Any]:
        """GET /types"""
        return {"volume_types": [_type_view(name) for name in TYPES]}

    def show_type(self, req: Request, name: str) -> dict[str, Any]:
        """GET /types/{name}; ``default`` is one, too"""
        if name not in (*TYPES, "default"):
            raise exception.NotFound(f"Volume type {name} could not be found.")
        return {"volume_type": _type_view("local" if name == "default" else name)}

    def limits(self, req: Request) -> dict[str, Any]:
        """GET /limits"""
        volumes, snapshots = self.volumes.list_all(_context(req)), self.volumes.list_snapshots(_context(req))
        return {"limits": {"rate": [], "absolute": {
            "maxTotalVolumes": -1, "maxTotalSnapshots": -1, "maxTotalVolumeGigabytes": self._quota_gb, "maxTotalBackups": -1,
            "maxTotalBackupGigabytes": -1, "totalVolumesUsed": len(volumes), "totalSnapshotsUsed": len(snapshots),
            "totalGigabytesUsed": self.volumes.used_gb(req.token.project_id or ""), "totalBackupsUsed": 0,
            "totalBackupGigabytesUsed": 0}}}

    def quota(self, req: Request, project: str) -> dict[str, Any]:
        """GET /os-quota-sets/{project}"""
        return {"quota_set": {"id": project, **dict.fromkeys(_UNLIMITED, -1), "gigabytes": self._quota_gb}}

    def zones(self, req: Request) -> dict[str, Any]:
        """GET /os-availability-zone"""
        return {"availabilityZoneInfo": [{"zoneName": ZONE, "zoneState": {"available": True}}]}

    def _list(self, req: Request) -> list[dict[str, Any]]:
        views = [_view(req, v) for v in self.volumes.list_all(_whose(req))]
        return _page(req, [v for v in views if _fits(req, v, ("name", "status", "bootable", "availability_zone"))])


def _version(req: Request) -> dict[str, Any]:
    return {"id": "v3.0", "status": "CURRENT", "version": MAX_VERSION, "min_version": "3.0", "updated": "2018-07-17T00:00:00Z",
            "links": [{"rel": "self", "href": f"{req.application_url}/v3/"}]}


def _part(req: Request, name: str) -> dict[str, Any]:
    found = req.json_object().get(name)
    if not isinstance(found, dict):
        raise exception.MalformedRequestBody()
    return found


def _context(req: Request) -> RequestContext:
    return RequestContext(user_id=req.token.user_id, project_id=req.token.project_id, roles=req.token.roles,
                          is_admin=req.is_admin, auth_token=req.headers.get("X-Auth-Token"), overwrite=False)


def _whose(req: Request) -> RequestContext:
    """An admin may ask for all projects."""
    everybody = req.is_admin and req.GET.get("all_tenants", "").lower() in ("1", "true")
    return admin_context() if everybody else _context(req)


def _fits(req: Request, view: dict[str, Any], keys: tuple[str, ...]) -> bool:
    return all(req.GET[k] == view[k] for k in keys if k in req.GET)


def _page(req: Request, views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ids = [v["id"] for v in views]
    start = ids.index(req.GET["marker"]) + 1 if req.GET.get("marker") in ids else 0
    return views[start:][:page_size(req)]


def _view(req: Request, volume: Volume) -> dict[str, Any]:
    image = {"volume_image_metadata": volume.image_metadata} if volume.image_metadata else {}
    return image | {
        "id": volume.id, "name": volume.name, "description": volume.description, "status": volume.status, "size": volume.size,
        "volume_type": volume.volume_type, "availability_zone": volume.availability_zone,
        "bootable": str(volume.bootable).lower(), "multiattach": volume.multiattach, "encrypted": volume.encrypted,
        "snapshot_id": volume.snapshot_id, "source_volid": None, "metadata": volume.metadata, "created_at": volume.created_at,
        "updated_at": None, "user_id": "", "replication_status": None, "consistencygroup_id": None,
        "os-vol-tenant-attr:tenant_id": volume.project_id, "links": [
            {"rel": "self", "href": f"{req.application_url}/v3/volumes/{volume.id}"}],
        "attachments": [{"id": volume.id, "volume_id": volume.id, "attachment_id": a["attachment_id"],
                         "device": a.get("device", ""), "server_id": a["server_id"], "host_name": None,
                         "attached_at": ""} for a in volume.attachments]}


def _snapshot_view(snapshot: StoredSnapshot) -> dict[str, Any]:
    return {"id": snapshot.id, "name": snapshot.name, "description": snapshot.description, "status": snapshot.status,
            "size": snapshot.size, "volume_id": snapshot.volume_id, "created_at": snapshot.created_at, "updated_at": None,
            "metadata": {}, "user_id": "", "os-extended-snapshot-attributes:project_id": snapshot.project_id,
            "os-extended-snapshot-attributes:progress": "100%"}


def _type_view(name: str) -> dict[str, Any]:
    return {"id": name, "name": name, "description": TYPES[name], "is_public": True, "os-volume-type-access:is_public": True,
            "extra_specs": {"multiattach": "<is> True"} if name == MULTIATTACH else {}, "qos_specs_id": None}
