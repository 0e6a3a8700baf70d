"""/servers/{server_id}/os-volume_attachments: the volumes of a server."""
from __future__ import annotations

from typing import Any

import webob
from oslo_utils import strutils

from nova_lite import exception, units
from nova_lite.api.compute.params import last
from nova_lite.api.compute.schemas import volume_attachments as schema
from nova_lite.api.compute.views.volume_attachments import attachment
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects import block_device as bd
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import member, reader, service

RULE = "os_compute_api:os-volumes-attachments:"
PATH = "/servers/{server_id}/os-volume_attachments"
_UPDATE = member(f"{RULE}update", "Change the attachment of a volume (2.85).", f"PUT {PATH}/{{volume_id}}")
_SWAP = service(f"{RULE}swap", "Exchange a volume of a server for another.", f"PUT {PATH}/{{volume_id}}")
_SHELVED = (states.SHELVED, states.SHELVED_OFFLOADED)


def index(req: Request, instance: Instance) -> dict[str, Any]:
    """All volumes, or the page of ``limit`` and ``offset``."""
    devices = [device for device in instance.volumes if device.volume_id]
    offset = units.number(last(req, "offset") or "0") or 0
    most = req.services.conf.api.max_limit
    limit = min(units.number(last(req, "limit") or "") or most, most)
    return {"volumeAttachments": [attachment(req, instance.uuid, device) for device in devices[offset:offset + limit]]}


def show(req: Request, instance: Instance, volume_id: str) -> dict[str, Any]:
    """One volume."""
    return {"volumeAttachment": attachment(req, instance.uuid, _device(instance, volume_id))}


def create(req: Request, instance: Instance) -> Any:
    """Attach a volume; it is done after the answer, which from 2.101 has no body."""
    wanted = req.json_in["volumeAttachment"]
    _check_shelved(req, instance, "attach_volume")
    device = req.services.compute.attach_volume(
        req.context, instance, wanted["volumeId"], wanted.get("device"), wanted.get("tag"),
        strutils.bool_from_string(wanted.get("delete_on_termination", False)), req.since("2.60"))
    if req.since("2.101"):
        return webob.Response(status=202, content_type=None)
    return {"volumeAttachment": attachment(req, instance.uuid, device, created=True)}


def update(req: Request, instance: Instance, volume_id: str) -> None:
    """Set whether the volume is deleted with its server (2.85), or exchange the volume for another one. Only the Volume service
    may ask for an exchange, while it migrates the volume."""
    wanted = req.json_in["volumeAttachment"]
    swap = wanted["volumeId"] != volume_id or not req.since("2.85")
    req.can(_SWAP if swap else _UPDATE, instance)
    if req.since("2.85"):
        device = _device(instance, volume_id)
        _check_unchanged(wanted, attachment(req, instance.uuid, device) | {"id": volume_id})
        if "delete_on_termination" in wanted:
            flag = strutils.bool_from_string(wanted["delete_on_termination"])
            req.services.compute.update_attachment(req.context, instance.uuid, volume_id, flag)
    if swap:
        req.services.compute.swap_volume(req.context, instance, volume_id, wanted["volumeId"])


def _check_unchanged(wanted: dict[str, Any], shown: dict[str, Any]) -> None:
    for key in ("id", "serverId", "device", "tag"):
        if key in wanted and wanted[key] != shown[key]:
            raise exception.Invalid(f"The {key} of a volume attachment cannot be changed: it is {shown[key]}, not "
                                    f"{wanted[key]}.")


def delete(req: Request, instance: Instance, volume_id: str) -> None:
    """Detach a volume; it is done after the answer."""
    _check_shelved(req, instance, "detach_volume")
    req.services.compute.detach_volume(req.context, instance.uuid, volume_id)


def _device(instance: Instance, volume_id: str) -> BlockDevice:
    device = bd.find(instance.block_devices, volume_id)
    if device is None:
        raise exception.VolumeNotAttached(instance_id=instance.uuid, volume_id=volume_id)
    return device


def _check_shelved(req: Request, instance: Instance, verb: str) -> None:
    if instance.vm_state in _SHELVED and not req.since("2.20"):
        raise exception.InstanceInvalidState(action=verb, instance_id=instance.uuid, attr="vm_state", state=instance.vm_state)


ROUTES = [
    Route("GET", PATH, index, reader(f"{RULE}index", "List the volumes of a server."), query=schema.INDEX_QUERY,
          response=schema.LISTED),
    Route("POST", PATH, create, member(f"{RULE}create", "Attach a volume to a server."), body=schema.CREATE,
          response=schema.CREATED, status={"2.1": 200, "2.101": 202}),
    Route("GET", PATH + "/{volume_id}", show, reader(f"{RULE}show", "Show a volume of a server."), response=schema.SHOWN),
    Route("PUT", PATH + "/{volume_id}", update, None, body=schema.UPDATE, status=202),
    Route("DELETE", PATH + "/{volume_id}", delete, member(f"{RULE}delete", "Detach a volume from a server."), status=202),
]
RULES = [_UPDATE, _SWAP]
