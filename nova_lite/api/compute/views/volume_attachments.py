"""A volume of a server as clients see it."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.block_device import BlockDevice


def attachment(req: Request, server_id: str, device: BlockDevice, created: bool = False) -> dict[str, Any]:
    """``created``: in the answer to its own POST, which has kept the older form."""
    shown: dict[str, Any] = {"serverId": server_id, "volumeId": device.volume_id, "device": device.device_name}
    if req.since("2.89") and not created:
        shown |= {"attachment_id": device.attachment_id, "bdm_uuid": device.id}
    else:
        shown["id"] = device.volume_id
    if req.since("2.70"):
        shown["tag"] = device.tag
    if req.since("2.79"):
        shown["delete_on_termination"] = device.delete_on_termination
    return shown
