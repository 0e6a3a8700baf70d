"""A volume of a running guest exchanged for another: copied while the guest goes on, then the guest writes to the new one.

The record of the device is changed at the one moment at which the guest has changed over, so that a second run knows which
half is left: what comes before is undone when it fails, what comes after is only ever completed.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import oslo_messaging as messaging
from oslo_log import log

from nova_lite import exception
from nova_lite.compute.volumes import changed, give_back, with_encryption
from nova_lite.compute.work import Work
from nova_lite.context import admin_context
from nova_lite.objects.block_device import BlockDevice

LOG = log.getLogger(__name__)
EVENTS = {"swap_volume": "compute_swap_volume"}
_STOP = (exception.LeaseLost, exception.InstanceNotFound, messaging.MessagingTimeout, messaging.MessageDeliveryFailure,
         messaging.RemoteError)


def swap(work: Work) -> None:
    """Exchange the volume and tell the Volume service how that ended. Raises what kept it from being done."""
    wanted = work.action.arguments
    device = next((d for d in work.instance.volumes if d.id == wanted["device_id"]), None)
    old = BlockDevice.from_primitive(wanted["old"])
    if "new_attachment_id" not in wanted:
        _give_back(work, replace(old, volume_id=wanted["new_volume_id"], attachment_id=None))
    if device is None:              # detached by a delete that came in between
        work.host.volume.release(admin_context(), wanted["new_attachment_id"])
        work.succeed()
        return
    if device.attachment_id != wanted["new_attachment_id"]:
        new = replace(old, volume_id=wanted["new_volume_id"], attachment_id=wanted["new_attachment_id"],
                      size=wanted["new_size"], connection_info=None)
        _change_over(work, old, new)
        device = new
    _complete(work, old, device)


def _give_back(work: Work, new: BlockDevice) -> NoReturn:
    """The request ended before it said that the new volume is reserved: who sent it takes it for failed. Raises Conflict."""
    give_back(work.host, work.instance, new)
    raise exception.Conflict(f"volume {new.volume_id} was not reserved: the API that took the request stopped in between")


def _change_over(work: Work, old: BlockDevice, new: BlockDevice) -> None:
    host, instance, context = work.host, work.instance, admin_context()
    try:
        attachment = host.volume.connect(context, new.attachment_id or "", host.driver.volume_connector())
        info = with_encryption(host, new, attachment.connection_info)
        # its secret stays known by this name, also when the Volume service lets the volume have the old one's id
        new.connection_info = {**host.driver.connect_volume(instance, new, info), "volume_id": new.volume_id}
        host.driver.swap_volume(instance, old, new)
    except _STOP:
        raise
    except Exception:
        _undo(work, old, new)
        raise
    work.update_device(old.id, {"volume_id": new.volume_id, "attachment_id": new.attachment_id, "size": new.size,
                                "connection_info": new.connection_info})


def _undo(work: Work, old: BlockDevice, new: BlockDevice) -> None:
    """The guest has the old volume still. The error that is on its way counts, not one of this."""
    host, instance = work.host, work.instance
    steps: list[Callable[[], object]] = [
        lambda: host.driver.disconnect_volume(instance, new),
        lambda: host.volume.release(admin_context(), new.attachment_id or ""),
        lambda: host.volume.complete_migration(admin_context(), old.volume_id or "", new.volume_id or "", True)]
    for step in steps:
        try:
            step()
        except exception.NovaLiteError:
            LOG.exception("after a failed swap of volume %s", old.volume_id, extra={"instance_uuid": instance.uuid})


def _complete(work: Work, old: BlockDevice, new: BlockDevice) -> None:
    """The guest has the new volume."""
    host, instance, context = work.host, work.instance, admin_context()
    new_id = work.action.arguments["new_volume_id"]
    host.volume.complete(context, new.attachment_id or "")
    host.driver.disconnect_volume(instance, old)
    host.volume.release(context, old.attachment_id or "")
    kept = host.volume.complete_migration(context, old.volume_id or "", new_id, False)
    work.succeed(changed(new.id, {"volume_id": kept}))
    LOG.info("volume %s exchanged for %s, which is called %s now", old.volume_id, new_id, kept,
             extra={"instance_uuid": instance.uuid})


VERBS: dict[str, Callable[[Work], None]] = {"swap_volume": swap}
