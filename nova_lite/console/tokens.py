"""The checks of a console proxy before it opens a connection: the conductor has the token, and the host has the console."""
from __future__ import annotations

from collections.abc import Collection

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.objects.console import ConsoleAuthToken, digest
from nova_lite.rpc import sender
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.conductor import ConductorAPI

LOG = log.getLogger(__name__)


class Tokens:
    """A proxy has no database; only digests of tokens leave it."""

    def __init__(self, conf: cfg.ConfigOpts, transport: messaging.RPCTransport, console_types: Collection[str]) -> None:
        self._conductor = ConductorAPI(transport, sender.of_control(conf))
        self._compute = ComputeAPI(transport, sender.to_hosts(conf, self._conductor.key_generations))
        self._types = frozenset(console_types)

    def resolve(self, token: str) -> ConsoleAuthToken | None:
        """The connection of a token; None for a token that is not valid, or when no conductor or host answers."""
        if not token:
            return None
        context = admin_context()
        try:
            found = self._conductor.get_console_auth_token(context, digest(token))
            known = ConsoleAuthToken.from_primitive(found) if found is not None else None
            if known is None or known.console_type not in self._types:
                return None
            still_there = self._compute.validate_console(context, known.compute_host, known.instance_uuid, known.console_type,
                                                         known.port)
        except (exception.ConductorAway, exception.NovaLiteError, messaging.MessagingException) as error:
            LOG.warning("a console was refused, as its token could not be checked: %s", error)
            return None
        return known if still_there else None
