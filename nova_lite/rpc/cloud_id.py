"""The id of this cloud, which ``db sync`` makes. A service whose database is of another cloud must not take messages of this
one.

Conductors and schedulers read the id in their database, and answer :meth:`Member.cloud`. A service asks them before it starts.
A compute host has no database. It gets the id from the conductor, and its messages name the cloud from then on: a conductor of
another cloud, which could start because no service of this one answered, refuses them (``runtime/rpc_callers.py``).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import oslo_messaging as messaging
from oslo_log import log

from nova_lite import rpc
from nova_lite.context import RequestContext, admin_context

LOG = log.getLogger(__name__)
TIMEOUT = 1.0
"""Seconds for each of two questions: the first services of a cloud get no answer, and each of them waits so long."""


class Found(NamedTuple):
    """What a service on the broker says."""

    cloud: str
    service: str    # such as "conductor on node1"


class Member:
    """The RPC method of a service that has the id of its cloud; ``read`` returns None until then."""

    def __init__(self, host: str, read: Callable[[], str | None]) -> None:
        self._host, self._read = host, read

    def cloud(self, context: RequestContext) -> dict[str, str | None]:
        """The cloud of this service, and the host on which it runs."""
        return {"cloud": self._read(), "host": self._host}


class _Client(rpc.Client):
    def __init__(self, transport: messaging.RPCTransport, topic: str) -> None:
        self.topic = topic
        super().__init__(transport)


def find(transport: messaging.RPCTransport) -> Found | None:
    """Ask any conductor, then any scheduler. None: no service that has the id has answered."""
    for topic in (rpc.CONDUCTOR, rpc.SCHEDULER):
        try:
            answer = _Client(transport, topic).call(admin_context(), "cloud", timeout=TIMEOUT)
        except messaging.MessagingException as error:       # there is no such service, or an older version without this method
            LOG.debug("no %s has answered which cloud this is: %s", topic, error)
            continue
        if answer["cloud"]:
            return Found(answer["cloud"], f"{topic} on {answer['host']}")
    return None
