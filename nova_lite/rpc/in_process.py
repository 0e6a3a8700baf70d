"""A driver of oslo.messaging for services in one process: ``transport_url = in-process://``.

No thread polls for messages: the sender of a message submits it to the executor of the RPC server that listens. Messages and
answers cross as JSON, as with a broker. A message waits until a server listens to its address. All transports of a process
with the same URL share one bus. The bus and what waits on it are gone with the last of these transports.
"""
from __future__ import annotations

import collections
import queue
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import oslo_messaging as messaging
from oslo_messaging._drivers import base
from oslo_serialization import jsonutils

from nova_lite import rpc


class Address(NamedTuple):
    """Where messages wait: at a topic, or at one server of it."""

    exchange: str
    topic: str
    server: str | None = None


class Message(base.RpcIncomingMessage):     # type: ignore[misc]
    """What a server gets. ``answers``: where the sender waits for the answer; None for a cast."""

    def __init__(self, bus: Bus, address: Address, context: dict[str, Any], message: dict[str, Any],
                 answers: queue.Queue[Any] | None) -> None:
        super().__init__(_copy(context), _copy(message))
        self._bus, self._address, self._answers = bus, address, answers

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        if self._answers is not None:
            self._answers.put((_copy(reply), failure[1] if failure else None))

    def requeue(self) -> None:
        self._bus.put(self._address, self)

    def heartbeat(self) -> None:
        """Nothing: the sender and the server end together."""


class Listener(base.Listener):      # type: ignore[misc]
    """Takes the messages for one RPC server."""

    def __init__(self, bus: Bus, address: Address) -> None:
        super().__init__(batch_size=1, batch_timeout=None)
        self._bus, self._address = bus, address

    def start(self, on_incoming_callback: Any) -> None:
        super().start(on_incoming_callback)
        self._bus.add(self, self._address)

    def stop(self) -> None:
        self._bus.remove(self, self._address)
        super().stop()

    def cleanup(self) -> None:
        """Nothing is left after the stop."""


class Bus:
    """The addresses of one URL. Several listeners of an address get its messages in turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[Address, collections.deque[Listener]] = collections.defaultdict(collections.deque)
        self._waiting: dict[Address, collections.deque[Message]] = collections.defaultdict(collections.deque)

    def put(self, address: Address, message: Message) -> None:
        """Give a message to a listener, or keep it for the next one."""
        with self._lock:
            listeners = self._listeners[address]
            if listeners:
                listeners.rotate()
                listeners[0].on_incoming_callback([message])
            else:
                self._waiting[address].append(message)

    def add(self, listener: Listener, address: Address) -> None:
        """From now on the listener gets messages, first those that wait."""
        with self._lock:
            self._listeners[address].append(listener)
            for message in self._waiting.pop(address, ()):
                listener.on_incoming_callback([message])

    def remove(self, listener: Listener, address: Address) -> None:
        """The listener gets no more messages, as soon as this has returned."""
        with self._lock:
            self._listeners[address].remove(listener)


_BUSES: weakref.WeakValueDictionary[str, Bus] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


class Driver(base.BaseDriver):      # type: ignore[misc]
    """The entry point ``in-process`` of ``oslo.messaging.drivers``."""

    def __init__(self, conf: Any, url: Any, default_exchange: str | None = None,
                 allowed_remote_exmods: Sequence[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        with _LOCK:
            self._bus = _BUSES.setdefault(str(url), Bus())

    def _address(self, target: messaging.Target, server: str | None = None) -> Address:
        return Address(target.exchange or self._default_exchange, target.topic, server)

    def send(self, target: messaging.Target, ctxt: dict[str, Any], message: dict[str, Any], wait_for_reply: bool | None = None,
             timeout: float | None = None, call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: Any = None) -> Any:
        """The answer. Raises what the server raised, or MessagingTimeout."""
        if target.fanout:
            raise NotImplementedError("in-process:// has no fanout")
        address = self._address(target, target.server)
        answers: queue.Queue[Any] | None = queue.Queue() if wait_for_reply else None
        self._bus.put(address, Message(self._bus, address, ctxt, message, answers))
        if answers is None:
            return None
        try:
            answer, failure = answers.get(timeout=timeout)
        except queue.Empty:
            raise messaging.MessagingTimeout(f"no answer on topic {target.topic}") from None
        if failure is not None:
            raise failure
        return answer

    def send_notification(self, target: messaging.Target, ctxt: dict[str, Any], message: dict[str, Any], version: float,
                          retry: int | None = None) -> None:
        """Nothing: nobody listens to notifications in this process."""

    def listen(self, target: messaging.Target, batch_size: int, batch_timeout: float | None) -> Listener:
        return Listener(self._bus, self._address(target, target.server if target.topic in rpc.ADDRESSED else None))

    def listen_for_notifications(self, targets_and_priorities: Iterable[tuple[messaging.Target, str]], pool: str | None,
                                 batch_size: int, batch_timeout: float | None) -> Listener:
        raise NotImplementedError("in-process:// has no notifications")

    def cleanup(self) -> None:
        """The bus ends with its last driver."""


def _copy(value: Any) -> Any:
    return jsonutils.loads(jsonutils.dumps(value))
