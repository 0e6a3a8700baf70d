"""Queries that a compute host answers at once."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import oslo_messaging as messaging
from oslo_log import log

from nova_lite import exception, operations
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext
from nova_lite.objects import states
from nova_lite.objects.diagnostics import Diagnostics
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
T = TypeVar("T")


class Queries(Base):
    """Each raises ServiceUnavailable when the host does not answer."""

    def get_console_output(self, context: RequestContext, instance: Instance, length: int | None) -> str:
        """The end of the console log. Raises InstanceNotReady."""
        if not instance.host or instance.vm_state == states.BUILDING:
            raise exception.InstanceNotReady(instance_id=instance.uuid)
        return ask(f"Console of instance {instance.uuid}", self.compute_rpc.get_console_output, context, instance.host,
                    instance.uuid, length)

    def get_diagnostics(self, context: RequestContext, instance: Instance) -> Diagnostics:
        """What the hypervisor counts. Raises InstanceNotReady, or InstanceInvalidState for a guest that does not run."""
        if not instance.host:
            raise exception.InstanceNotReady(instance_id=instance.uuid)
        return Diagnostics.from_primitive(ask(f"Diagnostics of instance {instance.uuid}", self.compute_rpc.get_diagnostics,
                                              context, instance.host, instance.uuid))

    def change_password(self, context: RequestContext, instance: Instance, password: str) -> None:
        """Set the administrator's password, if the host says that it can: raises NotImplementedByDriver or Conflict if not."""
        operations.check(operations.VERBS["changePassword"], instance, may_override_lock=bool(context.is_admin))
        if not instance.host:
            raise exception.InstanceNotReady(instance_id=instance.uuid)
        ask(f"Password of instance {instance.uuid}", self.compute_rpc.check_admin_password, context, instance.host,
            instance.uuid)
        self.operate(context, instance.uuid, "changePassword", {"admin_password": password})


def ask(what: str, query: Callable[..., T], *arguments: Any) -> T:
    """The host's answer; raises ServiceUnavailable when there is none."""
    try:
        return query(*arguments)
    except (messaging.MessagingTimeout, messaging.MessageDeliveryFailure, messaging.RemoteError) as error:
        raise exception.ServiceUnavailable(what=what, reason="its compute host does not answer") from error
    except exception.HostNotAllowed as error:       # keys or clocks do not agree
        LOG.error("%s: %s", what, error)
        raise exception.ServiceUnavailable(what=what, reason="its compute host refuses the message of the API") from error
