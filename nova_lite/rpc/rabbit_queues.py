"""The queues of nova_lite on RabbitMQ: their names, and how they are declared.

The exchange is ``[rpc] exchange``, and so is the first word of each name: a second cloud, or Nova, has other queues on the same
virtual host. Routing keys are the topics. They need no such word, as they belong to the exchange.

======================================= ============================ ====================================================
``EXCHANGE.conductor``, ``.scheduler``  any worker takes a message   quorum queues (``rabbit_quorum_queue``)
``EXCHANGE.compute.HOST``               the messages of one host     classic, not durable, and gone when nobody has used
                                                                     the queue for ``rabbit_transient_queues_ttl`` seconds
``EXCHANGE.reply.HOST.PROCESS.NUMBER``  answers to one process       the same
======================================= ============================ ====================================================
"""
from __future__ import annotations

import contextlib
import hashlib
import itertools
import socket
from collections.abc import Callable
from typing import Any

import amqp
import kombu
from oslo_log import log
from oslo_messaging._drivers import impl_rabbit

LOG = log.getLogger(__name__)


class ServerQueue(impl_rabbit.Consumer):    # type: ignore[misc]
    """The queue of an RPC server. ``connection`` is oslo.messaging's, which has the options. ``of_host``: it is one host's."""

    def __init__(self, connection: Any, exchange: str, key: str, callback: Callable[[Any], None], of_host: bool) -> None:
        quorum = connection.rabbit_transient_quorum_queue if of_host else connection.rabbit_quorum_queue
        super().__init__(
            exchange_name=exchange, queue_name=f"{exchange}.{key}", routing_key=key, type="topic", callback=callback,
            durable=quorum if of_host else connection.durable, exchange_auto_delete=connection.amqp_auto_delete,
            queue_auto_delete=connection.amqp_auto_delete, rabbit_ha_queues=connection.rabbit_ha_queues,
            rabbit_queue_ttl=connection.rabbit_transient_queues_ttl if of_host else 0,
            enable_cancel_on_failover=connection.enable_cancel_on_failover, rabbit_quorum_queue=quorum,
            rabbit_quorum_queue_config=connection.rabbit_quorum_queue_config)
        # oslo.messaging makes the exchange as durable as the queue; this exchange is that of the shared queues, too
        self.exchange = kombu.Exchange(exchange, "topic", durable=connection.durable, auto_delete=connection.amqp_auto_delete)

    def declare(self, connection: Any) -> None:
        """Called for each new connection to the broker, too."""
        super().declare(connection)
        _leave_queue_of_release_before(connection.connection, self.exchange, self.routing_key)


def _leave_queue_of_release_before(connection: kombu.Connection, exchange: kombu.Exchange, key: str) -> None:
    """The release before this one had the same exchange and keys, and queues that had the name of the key. Such a queue gets no
    more messages, as they would be done twice, or wait for ever. To remove in the next release."""
    try:
        with contextlib.closing(connection.channel()) as channel:
            kombu.Queue(key, channel=channel).unbind_from(exchange, key)
    except amqp.AccessRefused as error:
        LOG.warning("the queue %s of the release before may still get messages; delete it: %s", key, error)


class Place:
    """The first number from 1 on that no other process of this machine holds for this name. The kernel takes it back when the
    process ends, in whatever way. ``is_used``: whether a process elsewhere holds the number."""

    def __init__(self, name: str, is_used: Callable[[int], bool]) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        for number in itertools.count(1):
            # an abstract address needs no directory that this process may write to
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                self._socket.bind(f"\0nova_lite-{digest}-{number}")
            except OSError:
                self._socket.close()
                continue
            if not is_used(number):
                self.number = number
                return
            self._socket.close()

    def release(self) -> None:
        """Others may have the number."""
        self._socket.close()
