"""Queries that a host answers at once. They write nothing, and change nothing but that a guest is quiesced."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nova_lite import exception
from nova_lite.compute.work import Host
from nova_lite.context import RequestContext, admin_context
from nova_lite.objects import states
from nova_lite.objects.guest_moves import Plan, SourceFacts
from nova_lite.objects.instance import Instance
from nova_lite.rpc import expected


class Queries:
    """The part of the server side of ``rpc/compute.py`` that answers at once."""

    def __init__(self, host: Host, was_checked: Callable[[str], None]) -> None:
        """``was_checked`` is called for a server here that no host accepts: an interrupted check may have left bindings."""
        self.host, self._was_checked = host, was_checked

    @expected
    def get_console_output(self, context: RequestContext, instance_uuid: str, length: int | None) -> str:
        """The last lines of a server's console. Raises InstanceNotFound."""
        return self.host.driver.console_output(self._instance(context, instance_uuid), length)

    @expected
    def get_diagnostics(self, context: RequestContext, instance_uuid: str) -> dict[str, Any]:
        """``objects.Diagnostics`` of a server as a dictionary. Raises InstanceNotFound, or InstanceInvalidState for a guest
        that does not run."""
        instance = self._instance(context, instance_uuid)
        state = self.host.driver.power_state(instance)
        if state != states.RUNNING:
            raise exception.InstanceInvalidState(
                action="get_diagnostics", instance_id=instance_uuid, attr="power state",
                state=states.POWER_NAMES[states.NOSTATE if state is None else state])
        return self.host.driver.diagnostics(instance).to_primitive()

    @expected
    def check_admin_password(self, context: RequestContext, instance_uuid: str) -> None:
        """Raise NotImplementedByDriver (501) or Conflict (409) when the password of this guest cannot be set."""
        self.host.driver.check_admin_password(self._instance(context, instance_uuid))

    @expected
    def live_migration_facts(self, context: RequestContext, instance_uuid: str) -> dict[str, Any]:
        """``objects.guest_moves.SourceFacts`` of a guest of this host."""
        return self.host.driver.live.facts(self._instance(context, instance_uuid)).to_primitive()

    def live_migration_refused(self, context: RequestContext, instance_uuid: str, token: str) -> None:
        """See ``virt.live.LiveMigrations.forget``."""
        self._was_checked(instance_uuid)
        self.host.driver.live.forget(instance_uuid, token)

    @expected
    def check_live_migration(self, context: RequestContext, instance_uuid: str, there: dict[str, Any], block: bool | None,
                             over_commit: bool) -> dict[str, Any]:
        """``objects.guest_moves.Plan``: how this host would receive a guest. Raises MigrationPreCheckError and similar
        errors."""
        instance = self._instance(context, instance_uuid)
        plan = self.host.driver.live.check(instance, SourceFacts.from_primitive(there), block, over_commit)
        self._check_network(instance)
        return plan.to_primitive()

    def _check_network(self, instance: Instance) -> None:
        """Try to bind the ports to this host: only the Network service can decide that."""
        network, here = self.host.network, self.host.name
        try:
            network.expect(admin_context(), instance, here)
        except exception.VirtDriverError as error:
            raise exception.MigrationPreCheckError(reason=error) from error
        finally:
            network.forget(admin_context(), instance, here)

    @expected
    def waits_for_rest(self, context: RequestContext, instance_uuid: str) -> bool:
        """See ``virt.live.LiveMigrations.waits``."""
        return self.host.driver.live.waits(self._instance(context, instance_uuid))

    @expected
    def offer_for_live_migration(self, context: RequestContext, instance_uuid: str,
                                 plan: dict[str, Any]) -> dict[str, Any] | None:
        """``objects.guest_moves.DiskOffer``, or None: there is nothing that the hypervisor does not copy."""
        offer = self.host.driver.live.offer(self._instance(context, instance_uuid), Plan.from_primitive(plan))
        return offer.to_primitive() if offer is not None else None

    @expected
    def quiesce(self, context: RequestContext, instance_uuid: str) -> None:
        """Freeze a guest's file systems. An open action of the API guarantees that they are thawed."""
        self.host.driver.quiesce(self._instance(context, instance_uuid))

    @expected
    def unquiesce(self, context: RequestContext, instance_uuid: str) -> None:
        """Thaw a guest's file systems."""
        self.host.driver.unquiesce(self._instance(context, instance_uuid))

    def _instance(self, context: RequestContext, instance_uuid: str) -> Instance:
        return Instance.from_primitive(self.host.conductor.get_instance(context, instance_uuid))
