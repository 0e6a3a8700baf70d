"""Volumes of the Block Storage service, by its attachments API."""
from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.identity.keystone import Client, NeighbourError
from nova_lite.objects.volume import DETACHING, IN_USE, Attachment, Snapshot, Volume

MICROVERSION = "volume 3.44"        # the first in which an attachment is completed by a call of its own
_HEADERS = {"OpenStack-API-Version": MICROVERSION}
_HEADERS_REIMAGE = {"OpenStack-API-Version": "volume 3.68"}
_PAGE = 1000


class CinderVolumes:
    """The volume driver ``cinder``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._client = Client(conf, "block-storage", "Cinder", 3)

    def get(self, context: RequestContext, volume_id: str) -> Volume:
        """One volume."""
        gone = exception.VolumeNotFound(volume_id=volume_id)
        return _volume(self._one(context, "GET", "volumes", volume_id, gone)["volume"])

    def list_all(self, context: RequestContext) -> list[Volume]:
        """The volumes of the project."""
        return [_volume(v) for v in self._pages(context, "/volumes/detail", "volumes", {})]

    def get_snapshot(self, context: RequestContext, snapshot_id: str) -> Snapshot:
        """One snapshot."""
        gone = exception.SnapshotNotFound(snapshot_id=snapshot_id)
        return _snapshot(self._one(context, "GET", "snapshots", snapshot_id, gone)["snapshot"])

    def list_snapshots(self, context: RequestContext) -> list[Snapshot]:
        """The snapshots of the project."""
        return [_snapshot(s) for s in self._pages(context, "/snapshots/detail", "snapshots", {})]

    def create_snapshot(self, context: RequestContext, volume_id: str, name: str = "", description: str = "",
                        force: bool = False) -> Snapshot:
        """A new snapshot, still being made."""
        body = {"snapshot": {"volume_id": volume_id, "name": name, "description": description, "force": force}}
        gone = exception.VolumeNotFound(volume_id=volume_id)
        return _snapshot(self._call(context, "POST", "/snapshots", gone, body)["snapshot"])

    def delete_snapshot(self, context: RequestContext, snapshot_id: str) -> None:
        """Ask for a snapshot's end."""
        try:
            self._one(context, "DELETE", "snapshots", snapshot_id, exception.SnapshotNotFound(snapshot_id=snapshot_id))
        except exception.SnapshotNotFound:
            return

    def create(self, context: RequestContext, size: int, name: str = "", description: str = "",
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: str | None = None,
               availability_zone: str | None = None, metadata: dict[str, str] | None = None) -> Volume:
        """A new volume, still being created. Raises OverQuota (403) with Cinder's words, InvalidVolume (400)."""
        wanted = {"size": size, "name": name, "description": description, "imageRef": image_id, "snapshot_id": snapshot_id,
                  "volume_type": volume_type, "availability_zone": availability_zone, "metadata": metadata}
        gone = exception.SnapshotNotFound(snapshot_id=snapshot_id) if snapshot_id else None
        body = {"volume": {k: v for k, v in wanted.items() if v is not None}}
        return _volume(self._call(context, "POST", "/volumes", gone, body)["volume"])

    def reimage(self, context: RequestContext, volume_id: str, image_id: str) -> None:
        """By os-reimage, which came with 3.68."""
        gone = exception.VolumeNotFound(volume_id=volume_id)
        body = {"os-reimage": {"image_id": image_id, "reimage_reserved": True}}
        self._call(context, "POST", f"/volumes/{volume_id}/action", gone, body, headers=_HEADERS_REIMAGE)

    def find(self, context: RequestContext, metadata: dict[str, str]) -> list[Volume]:
        """The volumes that carry these metadata, of every project."""
        query = {"all_tenants": "1", "metadata": json.dumps(metadata)}
        found = [_volume(v) for v in self._pages(context, "/volumes/detail", "volumes", query)]
        # an operator may have switched the filter off, which Cinder does not report
        return [v for v in found if metadata.items() <= v.metadata.items()]

    def delete(self, context: RequestContext, volume_id: str) -> None:
        """Ask for a volume's end; InvalidVolume while it is in use."""
        try:
            self._one(context, "DELETE", "volumes", volume_id, exception.VolumeNotFound(volume_id=volume_id))
        except exception.VolumeNotFound:
            return

    def attachments(self, context: RequestContext, server_id: str) -> list[Attachment]:
        """Every attachment of a server."""
        # only an admin may ask by server
        query = {} if context.auth_token else {"all_tenants": "1", "instance_id": server_id}
        found = self._pages(context, "/attachments/detail", "attachments", query)
        return [_attachment(a) for a in found if a.get("instance") == server_id]

    def reserve(self, context: RequestContext, volume_id: str, server_id: str,
                connector: dict[str, Any] | None = None) -> Attachment:
        """Create an attachment. An update with a second connector is refused unless it is multiattach, a creation is not."""
        gone = exception.VolumeNotFound(volume_id=volume_id)
        body = {"attachment": {"volume_uuid": volume_id, "instance_uuid": server_id, "connector": connector}}
        return _attachment(self._call(context, "POST", "/attachments", gone, body)["attachment"])

    def connect(self, context: RequestContext, attachment_id: str, connector: dict[str, Any]) -> Attachment:
        """Set the connector of a host; the backend gives the host access to the volume."""
        gone = exception.VolumeAttachmentNotFound(attachment_id=attachment_id)
        body = {"attachment": {"connector": connector}}
        return _attachment(self._call(context, "PUT", f"/attachments/{attachment_id}", gone, body)["attachment"])

    def encryption(self, context: RequestContext, volume_id: str) -> dict[str, Any]:
        """The encryption of the volume's type, and the id of its own key."""
        gone = exception.VolumeNotFound(volume_id=volume_id)
        return self._call(context, "GET", f"/volumes/{volume_id}/encryption", gone)

    def complete(self, context: RequestContext, attachment_id: str) -> None:
        """The volume becomes in-use."""
        gone = exception.VolumeAttachmentNotFound(attachment_id=attachment_id)
        self._call(context, "POST", f"/attachments/{attachment_id}/action", gone, {"os-complete": {}})

    def begin_detaching(self, context: RequestContext, volume_id: str) -> None:
        """See VolumeAPI."""
        try:
            self._act(context, volume_id, "os-begin_detaching")
        except exception.InvalidVolume:
            if self.get(context, volume_id).status != DETACHING:
                raise

    def roll_detaching(self, context: RequestContext, volume_id: str) -> None:
        """See VolumeAPI; Cinder checks the status."""
        self._act(context, volume_id, "os-roll_detaching")

    def _act(self, context: RequestContext, volume_id: str, action: str, body: Mapping[str, str] | None = None) -> None:
        gone = exception.VolumeNotFound(volume_id=volume_id)
        if not uuidutils.is_uuid_like(volume_id):
            raise gone
        self._call(context, "POST", f"/volumes/{volume_id}/action", gone, {action: dict(body or {})})

    def release(self, context: RequestContext, attachment_id: str) -> None:
        """Delete an attachment."""
        try:
            self._call(context, "DELETE", f"/attachments/{attachment_id}",
                       exception.VolumeAttachmentNotFound(attachment_id=attachment_id))
        except exception.VolumeAttachmentNotFound:
            return

    def update_snapshot_status(self, context: RequestContext, snapshot_id: str, status: str) -> None:
        """Cinder continues then."""
        gone = exception.SnapshotNotFound(snapshot_id=snapshot_id)
        body = {"os-update_snapshot_status": {"status": status, "progress": "90%"}}
        try:
            self._call(context, "POST", f"/snapshots/{snapshot_id}/action", gone, body)
        except exception.SnapshotNotFound:
            return

    def complete_migration(self, context: RequestContext, volume_id: str, new_volume_id: str, failed: bool) -> str:
        """Cinder gives the id of the old volume to the new one, and deletes the rest. When one of them does not exist, Cinder
        has done this already."""
        body = {"os-migrate_volume_completion": {"new_volume": new_volume_id, "error": failed}}
        gone = exception.VolumeNotFound(volume_id=new_volume_id)
        try:
            answer = self._call(context, "POST", f"/volumes/{volume_id}/action", gone, body)
        except exception.VolumeNotFound:
            return self.get(context, volume_id).id
        return str(answer.get("save_volume_id") or new_volume_id)

    def make_available(self, context: RequestContext, volume_id: str) -> None:
        """At the end of a migration Cinder restores the status in which it began, whether the attachment is still there or not.
        After the detach of an attachment that there is not, the status is that of the attachments that there are."""
        try:
            volume = self.get(context, volume_id)
            if volume.status == IN_USE and not volume.attachments:
                self._act(context, volume_id, "os-detach", {"attachment_id": str(uuid.uuid4())})
        except exception.VolumeNotFound:
            return

    def _pages(self, context: RequestContext, path: str, key: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """The entries of a list, page by page. Cinder says that there are more for volumes only, and pages as it likes."""
        marker: dict[str, str] = {}
        while True:
            answer = self._call(context, "GET", path, None, params={**query, **marker, "limit": str(_PAGE)})
            yield from answer[key]
            more = f"{key}_links" in answer or len(answer[key]) >= _PAGE
            if not answer[key] or not more:
                return
            marker = {"marker": answer[key][-1]["id"]}

    def _one(self, context: RequestContext, method: str, kind: str, item_id: str, gone: exception.NotFound) -> dict[str, Any]:
        """One item by an id that may be any text of a user: it cannot become another path of Cinder."""
        if not uuidutils.is_uuid_like(item_id):
            raise gone
        return self._call(context, method, f"/{kind}/{item_id}", gone)

    def _call(self, context: RequestContext, method: str, path: str, gone: exception.NotFound | None,
              body: dict[str, Any] | None = None, params: dict[str, str] | None = None,
              headers: Mapping[str, str] = _HEADERS) -> dict[str, Any]:
        """``gone``: the error for a 404. Cinder's refusals become ours, with its text."""
        try:
            answer = self._client.call(context, method, "/{project}" + path, json=body, params=params, headers=dict(headers))
        except NeighbourError as error:
            raise _ours(error, gone) from error
        return dict(answer.json()) if answer.content else {}


def _ours(error: NeighbourError, gone: exception.NotFound | None) -> exception.NovaLiteError:
    reason = error.reason
    if error.status == 404 and gone is not None:
        return gone
    if error.status == 413 or (error.status == 403 and "quota" in reason.lower()):
        return exception.OverQuota(f"Cinder: {reason}")
    if error.status in (400, 404):
        return exception.InvalidVolume(reason=reason.removeprefix("Invalid volume: "))
    if error.status == 403:
        return exception.Forbidden(f"Cinder: {reason}")
    if error.status == 409:
        return exception.Conflict(f"Cinder: {reason}")
    if error.status == 406:
        return exception.ServiceUnavailable(what="Cinder", reason=f"it does not speak a microversion that we need: {reason}")
    return error


def _volume(found: dict[str, Any]) -> Volume:
    image = found.get("volume_image_metadata") or {}
    return Volume(
        id=found["id"], status=found["status"], size=found["size"],
        project_id=found.get("os-vol-tenant-attr:tenant_id") or "", name=found.get("name") or "",
        description=found.get("description") or "", volume_type=found.get("volume_type"),
        availability_zone=found.get("availability_zone"), bootable=str(found.get("bootable")).lower() == "true",
        multiattach=bool(found.get("multiattach")), encrypted=bool(found.get("encrypted")),
        snapshot_id=found.get("snapshot_id"), source_image=image.get("image_id"),
        attachments=[{"server_id": a["server_id"], "attachment_id": a["attachment_id"]}
                     for a in found.get("attachments") or []],
        image_metadata=image, metadata=found.get("metadata") or {}, created_at=found.get("created_at") or "",
        migration_status=found.get("os-vol-mig-status-attr:migstat"))


def _snapshot(found: dict[str, Any]) -> Snapshot:
    return Snapshot(found["id"], found["volume_id"], found["size"], found["status"], found.get("name") or "",
                    found.get("description") or "", found.get("created_at") or "")


def _attachment(found: dict[str, Any]) -> Attachment:
    """Cinder's connection_info is flat; ours keeps the type apart from the data, as its older API did."""
    info = dict(found.get("connection_info") or {})
    kind = info.pop("driver_volume_type", None)
    nested = info.pop("data", None)
    return Attachment(found["id"], found["volume_id"], found.get("instance") or "", found["status"],
                      {"driver_volume_type": kind, "data": nested if isinstance(nested, dict) else info} if kind else {})
