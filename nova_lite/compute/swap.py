"""Exchanges a volume of a running guest: the data is copied while the guest runs, then the guest changes to the new volume.

The record of the device changes when both volumes have the same data, before the guest changes. From then on each start of the
guest uses the new volume, and no run copies over what the guest has written there. So the record shows how far the exchange is:
the first half is undone after a failure, the second half is always completed.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.compute.volumes import changed, connector, give_back, with_encryption
from nova_lite.compute.work import Work, needs_stack
from nova_lite.context import admin_context
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
T = TypeVar("T")
PAUSE = 2.0         # seconds between tries of what has to be


def swap(work: Work) -> None:
    """Exchange the volume, and report the result to the Volume service. Raises the error."""
    wanted = work.action.arguments
    device = next((d for d in work.instance.volumes if d.id == wanted["device_id"]), None)
    old = BlockDevice.from_primitive(wanted["old"])
    if "new_attachment_id" not in wanted:
        _give_back(work, replace(old, volume_id=wanted["new_volume_id"], attachment_id=None))
    if device is None:              # the conductor reports it to the Volume service (conductor/deferred_cleanup.py)
        raise exception.VolumeNotAttached(instance_id=work.instance.uuid, volume_id=wanted["volume_id"])
    is_noted = device.volume_id == wanted["new_volume_id"]
    new = device if is_noted else replace(old, volume_id=wanted["new_volume_id"], attachment_id=wanted["new_attachment_id"],
                                          size=wanted["new_size"], connection_info=None)
    record = _Record(work, new if is_noted else old)
    _change_over(work, old, new, record)
    record.device = new
    _complete(work, old, new, record)


class _Record:
    """Which volume the server's record names."""

    def __init__(self, work: Work, device: BlockDevice) -> None:
        self._work, self.device = work, device

    def note(self, device: BlockDevice) -> None:
        """Raises what ``Work.update_device`` raises."""
        if device is not self.device:
            self.write(device)

    def write(self, device: BlockDevice) -> None:
        """Write the record, even when it is written already: a worker that has lost its lease gets LeaseLost."""
        self._work.update_device(device.id, {"volume_id": device.volume_id, "attachment_id": device.attachment_id,
                                             "size": device.size, "connection_info": device.connection_info})
        self.device = device


def _give_back(work: Work, new: BlockDevice) -> NoReturn:
    """The request died before it recorded that the new volume is reserved: its sender regards it as failed. Raises Conflict."""
    give_back(work.host, work.instance, new)
    raise exception.Conflict(f"volume {new.volume_id} was not reserved: the API that took the request stopped in between")


def _change_over(work: Work, old: BlockDevice, new: BlockDevice, record: _Record) -> None:
    """Once the record names the new volume there is no way back but the hypervisor's: it is asked until it has an answer, or
    the guest is not wanted any more."""
    while True:
        try:
            if record.device is new and _is_being_deleted(work):
                work.host.driver.power_off(work.instance, 0)
                return
            if new.connection_info is None:
                _connect(work, old, new)
            work.host.driver.swap_volume(work.instance, old, new, record.note)
            return
        except exception.InstanceNotFound:
            raise
        except Exception as error:
            if record.device is not new:
                _undo(work, old, new)
                raise
            if isinstance(error, exception.GuestLacksDisk):     # its next start gives it the new one
                return
            LOG.error("the guest is to change over to volume %s, which is tried again: %s", new.volume_id, error,
                      extra={"instance_uuid": work.instance.uuid}, exc_info=needs_stack(error))
        work.host.pause(PAUSE)
        record.write(new)


def _is_being_deleted(work: Work) -> bool:
    """The server is being deleted, which waits for us."""
    now = work.host.conductor.get_instance(admin_context(), work.instance.uuid)
    return Instance.from_primitive(now).task_state in (states.DELETING, states.SOFT_DELETING)


def _connect(work: Work, old: BlockDevice, new: BlockDevice) -> None:
    host, instance = work.host, work.instance
    attachment = host.volume.connect(admin_context(), new.attachment_id or "", connector(host, old))
    info = with_encryption(host, new, attachment.connection_info)
    # its secret stays known by this name, also when the Volume service lets the volume have the old one's id, and the guest
    # knows it as the old one, also when it is started in between
    new.connection_info = {**host.driver.connect_volume(instance, new, info), "volume_id": new.volume_id,
                           "serial": old.serial}


def _undo(work: Work, old: BlockDevice, new: BlockDevice) -> None:
    """Keep the old volume. An error of the undo is only logged, since the first error counts: the conductor undoes it again
    (``conductor/deferred_cleanup.py``)."""
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


def _complete(work: Work, old: BlockDevice, new: BlockDevice, record: _Record) -> None:
    """The guest has the new volume."""
    host, instance, context = work.host, work.instance, admin_context()
    new_id = work.action.arguments["new_volume_id"]
    _answered(work, record, lambda: host.volume.complete(context, new.attachment_id or ""))
    host.driver.disconnect_volume(instance, old)
    _answered(work, record, lambda: host.volume.release(context, old.attachment_id or ""))
    kept = _answered(work, record, lambda: host.volume.complete_migration(context, old.volume_id or "", new_id, False))
    work.succeed(changed(new.id, {"volume_id": kept}))
    LOG.info("volume %s exchanged for %s, which is called %s now", old.volume_id, new_id, kept,
             extra={"instance_uuid": instance.uuid})


def _answered(work: Work, record: _Record, step: Callable[[], T]) -> T:
    """The answer of the Volume service, once it is available: a migration of the service waits for it."""
    def tell(error: Exception, _pause: float) -> None:
        LOG.warning("the exchange of volume %s continues later: %s", record.device.volume_id, error,
                    extra={"instance_uuid": work.instance.uuid})

    def sleep(seconds: float) -> None:
        work.host.pause(seconds)
        record.write(record.device)

    return retry.on_error(step, exception.ServiceUnavailable, retry.every(PAUSE), work.host.clock, sleep=sleep,
                          before_pause=tell)


VERBS: dict[str, Callable[[Work], None]] = {"swap_volume": swap}
