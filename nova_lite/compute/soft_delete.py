"""Soft deletes on a host: the guest is off until a user restores the server, or its time is over."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nova_lite import units
from nova_lite.compute import snapshot
from nova_lite.compute.work import Work
from nova_lite.objects import states
from nova_lite.objects.instance import SHELVED_IMAGE, without_shelving_keys


def soft_delete(work: Work) -> None:
    """Off, at once; all that it has stays."""
    if work.host.driver.power_state(work.instance) is not None:
        work.host.driver.power_off(work.instance, 0)
    work.succeed()


def restore(work: Work) -> None:
    """Start the guest again. Until then the record keeps the time of the delete: else the server would never be reclaimed after
    a failure. The image of a server that was shelved is deleted."""
    for vif in work.instance.network_info:
        work.host.network.plug(work.instance, vif)
    work.host.driver.power_on(work.instance, work.instance.network_info)
    updates: dict[str, Any] = {"deleted_at": None}
    if SHELVED_IMAGE in work.instance.system_metadata:
        snapshot.discard(work, work.instance.system_metadata[SHELVED_IMAGE])
        updates["system_metadata"] = without_shelving_keys(work.instance)
    work.succeed(updates)


def settle(work: Work) -> dict[str, Any]:
    """The states that the server had, so that the user can try again. The time until its delete begins again."""
    is_deleted = work.instance.vm_state == states.SOFT_DELETED      # also before a second soft delete
    return {"vm_state": work.instance.vm_state, "deleted_at": units.utcnow().isoformat() if is_deleted else None}


VERBS: dict[str, Callable[[Work], None]] = {"soft_delete": soft_delete, "restore": restore}
