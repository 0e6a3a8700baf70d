"""The client side of the scheduler's RPC."""
from __future__ import annotations

from collections.abc import Sequence

from nova_lite import rpc
from nova_lite.context import RequestContext
from nova_lite.objects.scheduling import RequestSpec, Selection

TIMEOUT = 15.0
"""Seconds: shorter than a lease, since a scheduler that died with the message never answers."""


class SchedulerAPI(rpc.Client):
    """Method names are those of :class:`nova_lite.scheduler.manager.SchedulerManager`."""

    topic = rpc.SCHEDULER

    def select_destinations(self, context: RequestContext, request_spec: RequestSpec,
                            instance_uuids: Sequence[str]) -> dict[str, list[Selection]]:
        """instance uuid -> its host, whose room is claimed, and alternates, whose room is not. Raises NoValidHost (then nothing
        is claimed) or oslo_messaging.MessagingTimeout (then a repetition of the same call releases what may have been
        claimed)."""
        answer = self.call(context, "select_destinations", timeout=TIMEOUT, request_spec=request_spec.to_primitive(),
                           instance_uuids=list(instance_uuids))
        return {uuid: [Selection.from_primitive(s) for s in selections]
                for uuid, selections in answer["selections"].items()}
