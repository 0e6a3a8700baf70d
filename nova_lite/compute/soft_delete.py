"""Soft deletes on a host: the guest is off until somebody restores the server, or its time is over."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nova_lite import units
from nova_lite.compute.work import Work

EVENTS = {"soft_delete": "compute_soft_delete_instance", "restore": "compute_restore_instance"}


def soft_delete(work: Work) -> None:
    """Off, at once; all that it has stays."""
    if work.host.driver.power_state(work.instance) is not None:
        work.host.driver.power_off(work.instance, 0)
    work.succeed()


def restore(work: Work) -> None:
    """On again. Until then it has the time of its delete: without one it would be nobody's to reclaim, should this fail."""
    for vif in work.instance.network_info:
        work.host.network.plug(work.instance, vif)
    work.host.driver.power_on(work.instance, work.instance.network_info)
    work.succeed({"deleted_at": None})


def settle(work: Work) -> dict[str, Any]:
    """The server is what it was: it can be tried again. Who wanted it back gets the whole time to do so."""
    deleted_at = None if work.operation.verb == "soft_delete" else units.utcnow().isoformat()
    return {"vm_state": work.instance.vm_state, "deleted_at": deleted_at}


VERBS: dict[str, Callable[[Work], None]] = {"soft_delete": soft_delete, "restore": restore}
