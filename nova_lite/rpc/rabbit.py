"""RabbitMQ by oslo.messaging's driver, with few connections and queues of our own.

A process has one connection that receives, and some that send. The server of a conductor or scheduler has one more, which
receives no faster than the server works. An RPC server has one queue where oslo.messaging's has three: nova_lite addresses one
compute host, any conductor, or any scheduler, and never all of them. This module, ``rabbit_queues.py`` and
``rabbit_receiver.py`` are all that knows the inside of oslo.messaging's driver. ``tests/unit/rpc/test_rabbit.py`` fails when a
new version changes what they need.
"""
from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import amqp
import oslo_messaging as messaging
from oslo_concurrency import lockutils
from oslo_config import cfg
from oslo_log import log
from oslo_messaging._drivers import amqp as driver_options
from oslo_messaging._drivers import amqpdriver, base, common, impl_rabbit

from nova_lite import rpc
from nova_lite.rpc.rabbit_queues import Place
from nova_lite.rpc.rabbit_receiver import Receiver, Share

LOG = log.getLogger(__name__)
GROUP = "oslo_messaging_rabbit"
DEFAULTS = {"rabbit_quorum_queue": True, "amqp_durable_queues": True, "heartbeat_in_pthread": False,
            # an answer is of no use to a caller who has asked again; meanwhile it keeps a thread
            "kombu_missing_consumer_retry_timeout": 10}
"""Where ours differ from oslo.messaging's. What stands in a file of options counts more."""
MOST_SENDERS = 30
RECONNECT_DELAYS = (0.5, 2.5)
"""Seconds before a lost connection is made again: each process has a delay of its own, so that not all come back at once.
oslo.messaging's kombu_reconnect_splay changes only what its log says (impl_rabbit.py, Connection.ensure)."""


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of the driver, with our defaults. A second call changes nothing."""
    if GROUP not in conf:
        conf.register_opts([*impl_rabbit.rabbit_opts, *driver_options.amqp_opts], group=GROUP)
        _set_defaults(conf, {**DEFAULTS, "kombu_reconnect_delay": random.uniform(*RECONNECT_DELAYS)})  # noqa: S311


def use_few_connections(conf: cfg.ConfigOpts, hosts: int) -> None:
    """The defaults of a daemon of so many compute hosts: one connection that sends for each of them."""
    register(conf)
    _set_defaults(conf, {"conn_pool_min_size": 1})
    _set_defaults(conf, {"rpc_conn_pool_size": max(min(hosts, MOST_SENDERS), conf[GROUP].conn_pool_min_size)})


def _set_defaults(conf: cfg.ConfigOpts, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name in conf[GROUP]:         # a version may have no such option
            conf.set_default(name, value, group=GROUP)


class _Connection(impl_rabbit.Connection):     # type: ignore[misc]
    """Lets the broker drop calls that no conductor or scheduler takes in time, and does for each message only what it needs."""

    _timeout: tuple[Any, float | None] | None = None      # the socket of the last time-out, and its seconds

    def topic_send(self, exchange_name: str, topic: str, msg: Any, timeout: float | None = None, **options: Any) -> None:
        """``topic``: with the server after a dot, where there is one. ``timeout``: seconds for which the caller waits; None for
        a cast."""
        if timeout is not None and topic.partition(".")[0] not in rpc.ADDRESSED:
            timeout *= rpc.QUEUED_FOR
        super().topic_send(exchange_name, topic, msg, timeout=timeout, **options)

    def ensure(self, method: Callable[[], None], *arguments: Any, **named: Any) -> None:
        """Call ``method``; repeat it when the broker fails. oslo.messaging and kombu prepare retries for each message.
        That takes a third as long as to send it. So the first attempt is made here, and their retries begin with its error."""
        failures: list[Exception] = []
        if self.channel is not None:
            try:
                method()
            except Exception as error:
                failures.append(error)
            else:
                return

        def again() -> None:
            if failures:
                raise failures.pop()
            method()

        super().ensure(again, *arguments, **named)

    def set_transport_socket_timeout(self, timeout: float | None = None) -> None:
        """``timeout``: seconds; None: until the broker's sign of life is due. A socket that has this time-out is left alone."""
        wanted = getattr(getattr(self.channel, "connection", None), "sock", None), timeout
        if wanted != self._timeout:
            super().set_transport_socket_timeout(timeout)
            self._timeout = wanted


class _Message(amqpdriver.AMQPIncomingMessage):     # type: ignore[misc]
    """Takes room of its listener until a thread begins with the message."""

    def __init__(self, listener: _Listener, *arguments: Any) -> None:
        super().__init__(listener, *arguments)
        listener.room.acquire()

    def acknowledge(self) -> None:
        """The server calls this once, before all else."""
        self.listener.room.release()


class _Listener(amqpdriver.RpcAMQPListener):    # type: ignore[misc]
    """Receives as long as there is room for messages that wait for a thread. The others stay in the queue, where other servers
    take them, or the broker drops them. When no thread gets free for minutes, the broker closes the connection, because the
    receiver sends no sign of life. The receiver then makes a new one."""

    message_cls = _Message

    def __init__(self, driver: Driver, share: Share, room: int) -> None:
        super().__init__(driver, share)
        self.room = threading.Semaphore(room)

    def stop(self) -> None:
        """Receive no more. The messages that are here are given to threads meanwhile: the receiver may wait for room."""
        self.conn.stop_consuming()
        super().stop()


class Driver(impl_rabbit.RabbitDriver):     # type: ignore[misc]
    """See the module."""

    def __init__(self, conf: cfg.ConfigOpts, url: messaging.TransportURL, default_exchange: str,
                 allowed_remote_exmods: Sequence[str]) -> None:
        register(conf)
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._connection_pool.connection_cls = _Connection
        self._lock = threading.Lock()
        self._receivers: dict[str, Receiver] = {}       # those that a user of this kind may join
        # who waits for a connection waits here: the pool would warn each time
        self._senders = threading.BoundedSemaphore(self.conf[GROUP].rpc_conn_pool_size)
        self._place: Place | None = None
        if self._q_manager is not None:     # it counts under a lock of oslo.concurrency, whose options are not ours
            lockutils.set_defaults(lock_path=os.path.join(conf.state_path, "locks"))

    def listen(self, target: messaging.Target, batch_size: int, batch_timeout: float | None) -> base.Listener:
        """Receive the messages of an RPC server."""
        of_host = target.topic in rpc.ADDRESSED
        if of_host:
            key, share = f"{target.topic}.{target.server}", self.share("server")
            listener = amqpdriver.RpcAMQPListener(self, share)
        else:
            key, threads = target.topic, self.conf.executor_thread_pool_size
            share = self._own_share(max(1, threads // 4))
            listener = _Listener(self, share, threads)
        share.declare_server_queue(self._get_exchange(target), key, listener, of_host)
        return base.PollStyleListenerAdapter(listener, batch_size, batch_timeout)

    def _own_share(self, on_the_way: int) -> Share:
        """Of a receiver that may wait for room. It must not keep back the answers to the calls of its own server."""
        made = self._receiver(on_the_way).share()
        assert made is not None     # the receiver is new
        return made

    def _receiver(self, on_the_way: int = 0) -> Receiver:
        """``on_the_way``: how many messages may be on their way to it at a time; 0: all."""
        lent = super()._get_connection(common.PURPOSE_LISTEN)
        if on_the_way and not self.conf[GROUP].rabbit_qos_prefetch_count:
            # oslo.messaging sets it anew for each new connection to the broker
            lent.connection.rabbit_qos_prefetch_count = on_the_way
            try:
                lent.connection._set_qos(lent.connection.channel)
            except Exception:
                lent.close()
                raise
        return Receiver(lent)

    def share(self, use: str) -> Share:
        """Of a receiver that has no share for this use yet."""
        other = {"server": "answers", "answers": "server"}[use]
        with self._lock:
            receiver = self._receivers.pop(use, None)
            share = receiver.share() if receiver is not None else None
            while share is None:
                receiver = self._receivers[other] = self._receiver()
                share = receiver.share()
            return share

    def _get_connection(self, purpose: str = common.PURPOSE_SEND, retry: int | None = None) -> Any:
        return self.share("answers") if purpose == common.PURPOSE_LISTEN else self._sending(retry)

    @contextlib.contextmanager
    def _sending(self, retry: int | None) -> Iterator[Any]:
        with self._senders, super()._get_connection(common.PURPOSE_SEND, retry) as connection:
            yield connection

    def _get_reply_queue_name(self) -> str:
        """Of a queue that the next process in this one's place uses again."""
        if self._q_manager is not None:     # the operator has said how
            return f"{self._default_exchange}.{super()._get_reply_queue_name()}"
        name = f"{self._default_exchange}.reply.{self.conf.host}.{self.conf[GROUP].processname}"
        broker = sorted(f"{host.hostname}:{host.port}" for host in self._url.hosts)     # connections shuffle them
        self._release_place()       # of an attempt that has failed
        self._place = Place(f"{broker} {self._url.virtual_host} {name}", lambda number: self._is_used(f"{name}.{number}"))
        return f"{name}.{self._place.number}"

    def _is_used(self, queue: str) -> bool:
        """Whether somebody receives from a queue: a process with the name of this one on another machine."""
        try:
            with self._channel() as channel:
                return bool(channel.queue_declare(queue, passive=True).consumer_count)
        except (amqp.AMQPError, OSError) as error:
            LOG.debug("nobody has the queue %s: %s", queue, error)
            return False

    @contextlib.contextmanager
    def _channel(self) -> Iterator[Any]:
        with self._get_connection() as lent:
            # what the pool lends holds oslo.messaging's connection, and that holds kombu's; the thread of heartbeats reads, too
            connection = lent.connection
            with connection._connection_lock, contextlib.closing(connection.connection.channel()) as channel:
                yield channel

    def cleanup(self) -> None:
        """Close all connections."""
        super().cleanup()
        self._release_place()

    def _release_place(self) -> None:
        if self._place is not None:
            self._place.release()
