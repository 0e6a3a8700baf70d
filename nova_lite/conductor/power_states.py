"""What is written when a guest is found in another power state than its server says."""
from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from oslo_log import log

from nova_lite.compute import states
from nova_lite.db import instances
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
_FOUND = {(states.ACTIVE, states.SHUTDOWN): states.STOPPED, (states.ACTIVE, states.CRASHED): states.STOPPED,
          (states.STOPPED, states.RUNNING): states.ACTIVE, (states.PAUSED, states.RUNNING): states.ACTIVE,
          (states.ACTIVE, states.POWER_PAUSED): states.PAUSED, (states.PAUSED, states.SHUTDOWN): states.STOPPED,
          (states.SUSPENDED, states.RUNNING): states.ACTIVE}


def sync(conn: sa.Connection, host: str, found: Mapping[str, int]) -> None:
    """Compare the guests of a host with its servers. Servers on which an operation works are left alone."""
    for instance in instances.get_many(conn, list(found), lock=True).values():
        if instance.host == host and instance.task_state is None:
            _settle(conn, instance, found[instance.uuid])


def _settle(conn: sa.Connection, instance: Instance, power_state: int) -> None:
    vm_state = _FOUND.get((instance.vm_state, power_state), instance.vm_state)
    if (vm_state, power_state) == (instance.vm_state, instance.power_state):
        return
    LOG.info("the guest was found in power state %s: %s becomes %s", power_state, instance.vm_state, vm_state,
             extra={"instance_uuid": instance.uuid})
    instances.update(conn, instance.uuid, {"vm_state": vm_state, "power_state": power_state}, expected_task_states=[None])
