"""Who asks: the request context, as it travels from the API through RPC to the compute hosts."""
from __future__ import annotations

from typing import Any

from oslo_context import context

SENDER = "nova_lite_sender"     # the key of a message's context that names the sender
CLOUD = "nova_lite_cloud"       # the key that names the cloud of the sender
WAITS = "nova_lite_waits"       # the key that says how many seconds the caller waits for the answer


class RequestContext(context.RequestContext):
    """User, project, roles and request id of one request.

    ``global_request_id`` is the caller's own id (``X-OpenStack-Request-ID``). ``is_admin`` is what the rule
    ``context_is_admin`` says, by default the role admin; policy alone decides what that means. The token stays in the process
    that got it: ``to_rpc`` leaves it out, as nothing behind the API may need a user's token in a message.

    ``sender`` is what the sender of a message says of itself (``rpc/sender.py``), ``cloud`` its cloud, where it knows it
    (``rpc/cloud_id.py``). ``caller`` is the compute host that asks, as
    ``conductor/rpc_permissions.py`` has found; None for a control service. None of these is part of :meth:`to_rpc`.
    """

    sender: dict[str, Any] | None = None
    cloud: str | None = None
    caller: str | None = None

    def to_rpc(self) -> dict[str, Any]:
        """The context without token or catalog, ready for a message or for ``instance_actions.context``."""
        values = self.to_dict()
        for secret in ("auth_token", "service_token", "service_catalog"):
            values.pop(secret, None)
        return values

    @classmethod
    def from_rpc(cls, values: dict[str, Any]) -> RequestContext:
        """The inverse of :meth:`to_rpc`; unknown keys are ignored."""
        context: RequestContext = cls.from_dict(values)
        context.sender, context.cloud = values.get(SENDER), values.get(CLOUD)
        return context


def admin_context() -> RequestContext:
    """A context for work that the service does on its own behalf."""
    return RequestContext(is_admin=True, roles=["admin"], overwrite=False)
