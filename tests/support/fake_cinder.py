"""A Cinder of dictionaries: as much of Block Storage v3 as the driver speaks. A volume may say its ``connection``."""
from __future__ import annotations

import json
import re
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.fake_openstack import PROJECT, Answer, Call

SECRET = "chap-secret"
CONNECTION = {"driver_volume_type": "iscsi", "target_portal": "10.0.0.1:3260", "target_iqn": "iqn.x", "target_lun": 1,
              "auth_method": "CHAP", "auth_username": "u", "auth_password": SECRET}


def fault(status: int, message: str) -> Answer:
    """An error in Cinder's form: its body has one key."""
    names = {400: "badRequest", 403: "forbidden", 404: "itemNotFound", 409: "conflictingRequest", 413: "overLimit"}
    return Answer(status, {names[status]: {"code": status, "message": message}})


class FakeCinder:
    """``tokens`` says which project a token is of; the service's own sees everything. ``refuse``: what creates are told."""

    def __init__(self) -> None:
        self.volumes: dict[str, dict[str, Any]] = {}
        self.snapshots: dict[str, dict[str, Any]] = {}
        self.attachments: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.completed: list[tuple[str, str, bool]] = []    # migrations of volumes: old, new, failed
        self.page, self.filters_metadata = 1000, True
        self.refuse: Answer | None = None

    def __call__(self, call: Call) -> Answer:
        parts = urlsplit(call.path)
        token = call.headers["X-Auth-Token"]
        project = None if token.startswith("service-") else self.tokens[token]
        match = re.fullmatch(r"/v3/([^/]+)/(volumes|snapshots|attachments)(?:/([^/]+))?(/action|/encryption)?", parts.path)
        if match is None or match[1] != (project or PROJECT):
            return fault(404, f"there is no {parts.path}")
        wanted = "volume 3.68" if b'"os-reimage"' in (call.body or b"") else "volume 3.44"
        if call.headers.get("OpenStack-API-Version") != wanted:
            return fault(400, "wrong microversion")
        kind, name = match[2], match[3]
        table: dict[str, dict[str, Any]] = getattr(self, kind)
        if name is None:
            return getattr(self, f"_create_{kind}")(json.loads(call.body)[kind[:-1]], project)
        if name == "detail":
            return self._list(kind, table, {k: v[0] for k, v in parse_qs(parts.query).items()}, project)
        if name not in table or project not in (None, self._owner(table[name])):
            return fault(404, f"{kind[:-1]} {name} could not be found.")
        if match[4] == "/encryption":
            return Answer(200, table[name]["encryption"])
        if call.method == "GET":
            return Answer(200, {kind[:-1]: table[name]})
        return getattr(self, f"_{call.method.lower()}_{kind}")(name, json.loads(call.body or b"{}"))

    def add_volume(self, project: str, **values: Any) -> str:
        """A volume that is there already."""
        volume_id = str(uuid.uuid4())
        self.volumes[volume_id] = {
            "id": volume_id, "status": "available", "size": 1, "name": "", "description": None, "volume_type": "lvm",
            "availability_zone": "nova", "bootable": "false", "multiattach": False, "encrypted": False, "snapshot_id": None,
            "attachments": [], "metadata": {}, "encryption": {}, "created_at": "2026-01-01T00:00:00.000000",
            "os-vol-tenant-attr:tenant_id": project, **values}
        return volume_id

    def begin_migration(self, old: str, new: str) -> None:
        """What Cinder does with two volumes before it asks for their exchange."""
        self.volumes[old]["os-vol-mig-status-attr:migstat"] = "migrating"
        self.volumes[new]["os-vol-mig-status-attr:migstat"] = f"target:{old}"

    def _owner(self, row: dict[str, Any]) -> str:
        return str(self.volumes[row["volume_id"]]["os-vol-tenant-attr:tenant_id"]) if "volume_id" in row \
            else str(row["os-vol-tenant-attr:tenant_id"])

    def _list(self, kind: str, table: dict[str, dict[str, Any]], query: dict[str, str], project: str | None) -> Answer:
        everybody = project is None and query.get("all_tenants") == "1"
        rows = [r for r in table.values() if everybody or self._owner(r) == (project or PROJECT)]
        if "metadata" in query and self.filters_metadata:
            rows = [r for r in rows if json.loads(query["metadata"]).items() <= r["metadata"].items()]
        if "instance_id" in query and project is not None:
            return fault(400, "Invalid filters instance_id are found in query options.")
        if "instance_id" in query:
            rows = [r for r in rows if r["instance"] == query["instance_id"]]
        ids = [r["id"] for r in rows]
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        page = rows[start:start + min(self.page, int(query["limit"]))]
        more = {f"{kind}_links": [{"rel": "next", "href": "..."}]} if start + len(page) < len(rows) else {}
        return Answer(200, {kind: page, **more})

    def _create_volumes(self, body: dict[str, Any], project: str | None) -> Answer:
        if self.refuse is not None:
            return self.refuse
        values = {k: body[k] for k in ("size", "name", "description", "metadata", "snapshot_id") if k in body}
        if "imageRef" in body:
            values |= {"bootable": "true", "volume_image_metadata": {"image_id": body["imageRef"]}}
        volume_id = self.add_volume(project or PROJECT, status="creating", **values)
        return Answer(202, {"volume": self.volumes[volume_id]})

    def _create_snapshots(self, body: dict[str, Any], project: str | None) -> Answer:
        volume = self.volumes.get(body["volume_id"])
        if volume is None or project not in (None, self._owner(volume)):
            return fault(404, f"Volume {body['volume_id']} could not be found.")
        if volume["status"] != "available" and not body["force"]:
            return fault(400, f"Invalid volume: Volume {volume['id']} status must be available, but is {volume['status']}.")
        made = {"id": str(uuid.uuid4()), "status": "creating", "size": volume["size"], "volume_id": volume["id"],
                "name": body["name"], "description": body["description"], "created_at": "2026-01-01T00:00:00.000000"}
        self.snapshots[made["id"]] = made
        return Answer(202, {"snapshot": made})

    def _delete_snapshots(self, snapshot_id: str, _body: dict[str, Any]) -> Answer:
        del self.snapshots[snapshot_id]
        return Answer(202)

    def _delete_volumes(self, volume_id: str, _body: dict[str, Any]) -> Answer:
        volume = self.volumes[volume_id]
        if volume["status"] not in ("available", "error"):
            return fault(400, f"Invalid volume: Volume status must be available or error, but is {volume['status']}.")
        if _is_moving(volume) or any(row["volume_id"] == volume_id for row in self.snapshots.values()):
            return fault(400, "Invalid volume: Volume must not be migrating or have snapshots.")
        del self.volumes[volume_id]
        return Answer(202)

    def _post_snapshots(self, snapshot_id: str, body: dict[str, Any]) -> Answer:
        """What a hypervisor tells of its part."""
        self.snapshots[snapshot_id]["status"] = body["os-update_snapshot_status"]["status"]
        return Answer(202)

    def _post_volumes(self, volume_id: str, body: dict[str, Any]) -> Answer:
        [(action, asked)] = body.items()
        if action == "os-reimage":
            return self._reimage(self.volumes[volume_id], asked)
        if action == "os-detach":
            assert asked["attachment_id"] not in self.attachments
            self._tell_volume(volume_id)
            return Answer(202)
        return self._complete_migration(volume_id, asked) if action == "os-migrate_volume_completion" else \
            self._set_detaching(self.volumes[volume_id], action == "os-begin_detaching")

    def _reimage(self, volume: dict[str, Any], asked: dict[str, Any]) -> Answer:
        wanted = ("available", "error", *(("reserved",) if asked.get("reimage_reserved") else ()))
        if volume["status"] not in wanted:
            return fault(409, f"Volume status must be {' or '.join(wanted)}, but is {volume['status']}.")
        volume |= {"status": "downloading", "volume_image_metadata": {"image_id": asked["image_id"]}}
        return Answer(202)

    def _set_detaching(self, volume: dict[str, Any], begins: bool) -> Answer:
        before, after = ("in-use", "detaching") if begins else ("detaching", "in-use")
        if volume["status"] != before and begins:
            return fault(400, f"Invalid volume: Volume {volume['id']} status must be in-use, but is {volume['status']}.")
        if volume["status"] == before:
            volume["status"] = after
        return Answer(202)

    def _complete_migration(self, volume_id: str, asked: dict[str, Any]) -> Answer:
        """The end of a migration: the data of the new volume are known by the old one's id from now on."""
        if asked["new_volume"] not in self.volumes:
            return fault(404, f"Volume {asked['new_volume']} could not be found.")
        volume, new = self.volumes[volume_id], self.volumes[asked["new_volume"]]
        self.completed.append((volume_id, asked["new_volume"], asked["error"]))
        volume["os-vol-mig-status-attr:migstat"] = "error" if asked["error"] else "success"
        volume["status"] = "in-use"         # as it was when the migration began
        if asked["error"]:
            del self.volumes[new["id"]]
            return Answer(200, {"save_volume_id": volume_id})
        for row in self.attachments.values():
            if row["volume_id"] == new["id"]:
                row["volume_id"] = volume_id
        volume |= {key: new[key] for key in ("attachments", "size")}
        del self.volumes[new["id"]]
        return Answer(200, {"save_volume_id": volume_id})

    def _create_attachments(self, body: dict[str, Any], project: str | None) -> Answer:
        volume = self.volumes.get(body["volume_uuid"])
        if volume is None or project not in (None, self._owner(volume)):
            return fault(404, f"Volume {body['volume_uuid']} could not be found.")
        has_it = {row["instance"] for row in self._attachments_of(volume["id"])} == {body["instance_uuid"]}
        if volume["status"] != "available" and not volume["multiattach"] and not has_it:
            return fault(400, f"Invalid volume: Volume {volume['id']} status must be available or downloading to reserve, but "
                              f"the current status is {volume['status']}.")
        if not has_it:
            volume["status"] = "reserved"
        made = {"id": str(uuid.uuid4()), "status": "reserved", "instance": body["instance_uuid"], "volume_id": volume["id"],
                "attached_at": "", "detached_at": "", "attach_mode": None, "connection_info": {}}
        self.attachments[made["id"]] = made
        if body["connector"] is not None:
            return self._put_attachments(made["id"], {"attachment": body})
        return Answer(200, {"attachment": made})

    def _put_attachments(self, attachment_id: str, body: dict[str, Any]) -> Answer:
        row = self.attachments[attachment_id]
        row["status"] = "attaching"
        volume = self.volumes[row["volume_id"]]
        row["connection_info"] = {**volume.get("connection", CONNECTION), "encrypted": volume["encrypted"],
                                  "attachment_id": attachment_id, "told": body["attachment"]["connector"]["host"]}
        return Answer(200, {"attachment": row})

    def _post_attachments(self, attachment_id: str, body: dict[str, Any]) -> Answer:
        row = self.attachments[attachment_id]
        assert body == {"os-complete": {}}
        row["status"] = "attached"
        self._tell_volume(row["volume_id"])
        return Answer(204)

    def _delete_attachments(self, attachment_id: str, _body: dict[str, Any]) -> Answer:
        row = self.attachments.pop(attachment_id)
        self._tell_volume(row["volume_id"])
        return Answer(200, {"attachments": []})

    def _attachments_of(self, volume_id: str) -> list[dict[str, Any]]:
        return [row for row in self.attachments.values() if row["volume_id"] == volume_id]

    def _tell_volume(self, volume_id: str) -> None:
        """A volume is in use as long as somebody has it; whoever moves has it twice. One that migrates stays what it was."""
        shown = [{"id": volume_id, "server_id": row["instance"], "attachment_id": row["id"], "device": "/dev/vdb"}
                 for row in self._attachments_of(volume_id) if row["status"] == "attached"]
        left = "reserved" if self._attachments_of(volume_id) else "available"
        volume = self.volumes[volume_id]
        volume["attachments"] = shown
        if shown or left == "reserved" or not _is_moving(volume):
            volume["status"] = "in-use" if shown else left


def _is_moving(volume: dict[str, Any]) -> bool:
    return volume.get("os-vol-mig-status-attr:migstat") not in (None, "", "success", "error")
