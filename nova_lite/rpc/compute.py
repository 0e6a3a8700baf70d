"""The client side of the compute service's RPC; the server side is ``compute/manager.py``, with the same method names.

Most methods are casts that name an action. The database says what has to be done.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nova_lite import rpc
from nova_lite.context import RequestContext
from nova_lite.objects.guest_moves import DiskOffer, Plan, SourceFacts

ANSWER_TIMEOUT = 60.0
"""Seconds for what a host has to look for, or to begin to serve."""

SILENCE = 10.0
"""Seconds after which a host that has not begun with such an answer is dead, or has lost the question."""

LEAVE_TIMEOUT = 10.0
"""Seconds: the answer comes at once, it may only be "not yet"."""

QUIESCE_TIMEOUT = 150.0
"""Seconds: a guest may have much in its memory that it writes first, and an agent that is late is waited for."""


class ComputeAPI(rpc.Client):
    """Messages of the control plane to one compute host; ``sender`` signs them (``rpc.sender.to_hosts``)."""

    topic = rpc.COMPUTE

    def wake(self, context: RequestContext, host: str, action_ids: Sequence[int]) -> None:
        """Cast that these actions wait for the host."""
        self.cast(context, "wake", server=host, action_ids=list(action_ids))

    def external_instance_event(self, context: RequestContext, host: str, events: Sequence[dict[str, Any]]) -> None:
        """Events of other services about the host's servers: dictionaries with name, server_uuid, tag and status."""
        self.cast(context, "external_instance_event", server=host, events=list(events))

    def cache_images(self, context: RequestContext, host: str, image_ids: Sequence[str]) -> None:
        """Fetch images into the cache of a host, one after the other."""
        self.cast(context, "cache_images", server=host, image_ids=list(image_ids))

    def refresh_security_rules(self, context: RequestContext, host: str) -> None:
        """The security groups of guests of a host have changed, or groups that their rules name."""
        self.cast(context, "refresh_security_rules", server=host)

    def leave(self, context: RequestContext, host: str, instance_uuid: str, action_id: int,
              owner: str, move: str) -> dict[str, Any] | None:
        """Ask the host of a server that moves to let it go, for the move with this uuid; see ``compute/migration_source.py``.
        None: ask again."""
        return self.call(context, "leave", server=host, timeout=LEAVE_TIMEOUT, instance_uuid=instance_uuid, action_id=action_id,
                         owner=owner, move=move)

    def holds(self, context: RequestContext, host: str, instance: dict[str, Any], move: str) -> dict[str, bool]:
        """What a host has of a server that has moved: ``guest``; and ``aside``, the files that the move with this uuid has set
        aside there."""
        return self.call(context, "holds", server=host, timeout=ANSWER_TIMEOUT, silence=SILENCE, instance=instance, move=move)

    def arrived(self, context: RequestContext, host: str, instance: dict[str, Any]) -> None:
        """The disks of a server that left were copied."""
        self.cast(context, "arrived", server=host, instance=instance)

    def look_for_left_behind(self, context: RequestContext, host: str, instance_uuids: Sequence[str]) -> None:
        """Servers that were on the move are gone: see that nothing of them stays."""
        self.cast(context, "look_for_left_behind", server=host, instance_uuids=list(instance_uuids))

    def live_migration_facts(self, context: RequestContext, host: str, instance_uuid: str) -> SourceFacts:
        """What a running guest is like, for a host that may take it."""
        return SourceFacts.from_primitive(self.call(context, "live_migration_facts", server=host, instance_uuid=instance_uuid))

    def live_migration_refused(self, context: RequestContext, host: str, instance_uuid: str, facts: SourceFacts) -> None:
        """No host accepts the guest of ``live_migration_facts``."""
        self.cast(context, "live_migration_refused", server=host, instance_uuid=instance_uuid, token=facts.token)

    def check_live_migration(self, context: RequestContext, host: str, instance_uuid: str, there: SourceFacts,
                             block: bool | None, over_commit: bool) -> Plan:
        """How a host would receive a running guest. Raises MigrationPreCheckError and similar errors."""
        return Plan.from_primitive(self.call(
            context, "check_live_migration", server=host, instance_uuid=instance_uuid, there=there.to_primitive(), block=block,
            over_commit=over_commit))

    def waits_for_rest(self, context: RequestContext, host: str, instance_uuid: str) -> bool:
        """Whether a host has a guest that still waits for a part of its memory. Raises VirtDriverError when the hypervisor does
        not answer."""
        return self.call(context, "waits_for_rest", server=host, timeout=LEAVE_TIMEOUT, instance_uuid=instance_uuid)

    def offer_for_live_migration(self, context: RequestContext, host: str, instance_uuid: str, plan: Plan) -> DiskOffer | None:
        """Let the source serve what its hypervisor does not copy."""
        answer = self.call(context, "offer_for_live_migration", server=host, timeout=ANSWER_TIMEOUT, silence=SILENCE,
                           instance_uuid=instance_uuid, plan=plan.to_primitive())
        return DiskOffer.from_primitive(answer) if answer is not None else None

    def quiesce(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """Freeze the file systems of a running guest. Raises QemuGuestAgentNotEnabled or InstanceQuiesceFailed."""
        self.call(context, "quiesce", server=host, timeout=QUIESCE_TIMEOUT, instance_uuid=instance_uuid)

    def unquiesce(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """The inverse."""
        self.call(context, "unquiesce", server=host, timeout=QUIESCE_TIMEOUT, instance_uuid=instance_uuid)

    def get_console_output(self, context: RequestContext, host: str, instance_uuid: str, length: int | None) -> str:
        """The last ``length`` lines of a server's console (None: all that there is)."""
        return self.call(context, "get_console_output", server=host, instance_uuid=instance_uuid, length=length)

    def get_console(self, context: RequestContext, host: str, instance_uuid: str, protocol: str,
                    console_type: str) -> dict[str, Any]:
        """``objects.Console`` of a server as a dictionary, and ``base_url``, where the proxy for it is reached."""
        return self.call(context, "get_console", server=host, instance_uuid=instance_uuid, protocol=protocol,
                         console_type=console_type)

    def validate_console(self, context: RequestContext, host: str, instance_uuid: str, console_type: str, port: int) -> bool:
        """Whether the console of a server is still at this port."""
        return self.call(context, "validate_console", server=host, instance_uuid=instance_uuid, console_type=console_type,
                         port=port)

    def check_admin_password(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """Raise NotImplementedByDriver or Conflict when the password of a server cannot be set."""
        self.call(context, "check_admin_password", server=host, instance_uuid=instance_uuid)

    def get_diagnostics(self, context: RequestContext, host: str, instance_uuid: str) -> dict[str, Any]:
        """``objects.Diagnostics`` of a server as a dictionary."""
        return self.call(context, "get_diagnostics", server=host, instance_uuid=instance_uuid)
