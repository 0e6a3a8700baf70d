"""Evacuation of servers whose host is down."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base, Prepared
from nova_lite.conductor import completion, move_completion
from nova_lite.context import RequestContext
from nova_lite.db import actions, clock, services
from nova_lite.objects import states
from nova_lite.objects.instance import Instance

VERB = "evacuate"


class Evacuation(Base):
    """POST /servers/{id}/action (evacuate)."""

    def evacuate(self, context: RequestContext, instance: Instance, host: str | None, force: bool, stopped: bool,
                 admin_password: str | None) -> None:
        """Build the server again on another host, on ``host`` if one is named; ``stopped``: it is off afterwards. Raises
        ComputeHostNotFound (404), Invalid for the server's own host, ComputeServiceInUse (400) for a host that is up,
        ComputeServiceMayBeInUse (409) for one that may be up because nobody has received reports for long enough,
        InstanceInvalidState for a server that is being deleted, or may run at the new host of another evacuation, and as
        ``states.check``."""
        operations.check(operations.VERBS[VERB], instance, may_override_lock=bool(context.is_admin))
        validate.refuse_vtpm(instance, "evacuate")
        if instance.host is None:
            raise exception.InstanceNotReady(instance_id=instance.uuid)
        with self.db.read() as connection:
            if host is not None:
                try:
                    services.get_by_host(connection, host, services.COMPUTE)
                except exception.NotFound as error:
                    raise exception.ComputeHostNotFound(f"Compute host {host} not found.") from error
                if host == instance.host:
                    raise exception.Invalid("The target host can't be the same one.")
            self._check_is_dead(connection, instance.host)
        arguments: dict[str, Any] = {"host": host, "force": force, "stopped": stopped}
        if admin_password and instance.config_drive:
            arguments["admin_password"] = admin_password
        self.operate(context, instance.uuid, VERB, arguments, prepare=_end_others)

    def _check_is_dead(self, connection: sa.Connection, host: str) -> None:
        down_time, interval = self.conf.compute.service_down_time, self.conf.compute.report_interval
        service = services.get_by_host(connection, host, services.COMPUTE)
        if services.is_up(service, down_time, clock.read(connection)):
            raise exception.ComputeServiceInUse(host=host)
        if not services.is_dead(connection, service, down_time, interval):
            raise exception.ComputeServiceMayBeInUse(host=host, seconds=down_time)


def _end_others(connection: sa.Connection, server: Instance) -> Prepared:
    """End the open actions of the dead host on this server, so that it does not continue them when it is back. Only a delete,
    which was promised already, continues (InstanceInvalidState), and an older evacuation whose guest may run at its new host
    (InstanceIsBusy). Verbs that follow the guest are done at the new host. Moves end, and their room at other hosts is
    released."""
    others = actions.open_of_instances(connection, [server.uuid]).get(server.uuid, [])
    if server.task_state == states.DELETING or any(
            operations.of(other).ends_in in (states.DELETED, states.SOFT_DELETED) for other in others):
        raise exception.InstanceInvalidState(action=VERB, instance_id=server.uuid, attr="task_state", state=server.task_state)
    for other in others:
        if operations.of(other).guest is operations.Guest.RETURNS and completion.guest_may_run(connection, other):
            raise exception.InstanceIsBusy(action=VERB, instance_id=server.uuid, state=f"its evacuation to {other.host}")
    for other in others:
        if not operations.of(other).follows_guest:
            completion.cancel(connection, other)
    move_completion.superseded(connection, server)
    return Prepared(move_completion.room_of(server))
