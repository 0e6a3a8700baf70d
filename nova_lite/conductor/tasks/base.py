"""What all tasks use: their tools, and the request to the scheduler."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from nova_lite.conductor.bus_health import BusHealth
from nova_lite.conductor.leases import Leases
from nova_lite.context import RequestContext
from nova_lite.db import actions, server_groups
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.scheduling import RequestSpec
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.rpc.scheduler import SchedulerAPI


class HostsMayReport(Exception):
    """Hosts still have time to report after an outage. A task that raises it is run again by the next sweep."""


@dataclass(frozen=True)
class Tools:
    """The objects that every task may use."""

    conf: cfg.ConfigOpts
    db: Database
    leases: Leases
    scheduler: SchedulerAPI
    compute: ComputeAPI
    conductor: ConductorAPI
    bus_health: BusHealth

    def hand_over(self, conn: sa.Connection, action: Action, host: str, arguments: Mapping[str, Any] | None = None,
                  step: str | None = None) -> None:
        """Give an action of this conductor to a host, at a step; ``arguments`` are added to those of the action. Runs in the
        caller's transaction, and raises LeaseLost, which rolls it back. Wake the host after the commit (:meth:`wake`)."""
        actions.check_held(conn, action.id, self.leases.owner)
        actions.hand_over(conn, [action.id], self.conf.conductor.lease_seconds, objects.COMPUTE, host,
                          {**action.arguments, **(arguments or {})}, step)

    def wake(self, action: Action, host: str) -> None:
        """Send a host the id of an action that waits for it."""
        context = RequestContext.from_rpc(action.context or {})
        self.compute.wake(context, host, [action.id])


def request_spec(instance: Instance, action: Action, group: dict[str, Any] | None) -> RequestSpec:
    """A place for a server as it was asked for; ``group`` as :func:`group_facts` gives it."""
    return RequestSpec(
        flavor=instance.placed_flavor, project_id=instance.project_id, user_id=instance.user_id, image=instance.image,
        availability_zone=instance.pinned_availability_zone, requested_destination=instance.requested_destination,
        ignore_hosts=list(action.arguments.get("ignore_hosts", ())), scheduler_hints=instance.scheduler_hints, group=group)


def group_facts(group: dict[str, Any] | None) -> dict[str, Any] | None:
    """The fields of a server group that claims and filters need."""
    return {key: group[key] for key in ("uuid", "policy", "rules")} if group is not None else None


def group_of(conn: sa.Connection, instance_uuid: str) -> dict[str, Any] | None:
    """The facts of the group that a server is a member of; None: of none."""
    uuid = server_groups.of_instances(conn, [instance_uuid]).get(instance_uuid)
    return group_facts(server_groups.get(conn, uuid)) if uuid is not None else None
