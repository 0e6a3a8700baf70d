"""Snapshots of volumes that the Volume service cannot make alone, because a guest has the file open: the hypervisor makes them,
and the result is reported to the Volume service.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_log import log

from nova_lite import exception
from nova_lite.compute.work import Work
from nova_lite.context import admin_context
from nova_lite.objects.block_device import BlockDevice, find

LOG = log.getLogger(__name__)
CREATING, DELETING, ERROR, ERROR_DELETING = "creating", "deleting", "error", "error_deleting"


def create(work: Work) -> None:
    """Let the guest write to a new file from now on; what was before is the snapshot."""
    info: dict[str, Any] = work.action.arguments["info"]
    _do(work, lambda device: work.host.driver.snapshot_volume(work.instance, device, info), CREATING, ERROR)


def delete(work: Work) -> None:
    """Merge the file of a snapshot into its neighbour."""
    info: dict[str, Any] = work.action.arguments["info"]
    _do(work, lambda device: work.host.driver.merge_volume_snapshot(work.instance, device, info), DELETING, ERROR_DELETING)


def _do(work: Work, carry_out: Callable[[BlockDevice], None], good: str, bad: str) -> None:
    """``good``: whether the snapshot may continue; the Volume service checks the rest."""
    arguments, volumes = work.action.arguments, work.host.volume
    try:
        device = find(work.instance.block_devices, arguments["volume_id"])
        if device is None:
            raise exception.VolumeNotAttached(instance_id=work.instance.uuid, volume_id=arguments["volume_id"])
        carry_out(device)
    except (exception.VirtDriverError, exception.NotImplementedByDriver, exception.VolumeNotAttached):
        volumes.update_snapshot_status(admin_context(), arguments["snapshot_id"], bad)
        raise
    volumes.update_snapshot_status(admin_context(), arguments["snapshot_id"], good)
    work.succeed()


VERBS: dict[str, Callable[[Work], None]] = {"volume_snapshot_create": create, "volume_snapshot_delete": delete}
