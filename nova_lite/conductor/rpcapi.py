"""The client side of the conductor's RPC; the server side is ``conductor/manager.py``, with the same method names."""
from __future__ import annotations

from collections.abc import Sequence

from nova_lite import rpc
from nova_lite.context import RequestContext


class ConductorAPI(rpc.Client):
    """Messages to whichever conductor takes them."""

    topic = rpc.CONDUCTOR

    def schedule_and_build_instances(self, context: RequestContext, action_ids: Sequence[int]) -> None:
        """Find hosts for new servers and let them be built there."""
        self.cast(context, "schedule_and_build_instances", action_ids=list(action_ids))

    def run_action(self, context: RequestContext, action_ids: Sequence[int]) -> None:
        """Do what the conductor itself has to do, such as the delete of a server without a host."""
        self.cast(context, "run_action", action_ids=list(action_ids))
