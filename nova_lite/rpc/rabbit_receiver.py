"""One connection to RabbitMQ for all that a process receives: answers to its calls, and the messages of its RPC server.

oslo.messaging makes a connection for each of the two, with a thread that reads it. A :class:`Receiver` has one connection and
one thread. The driver's listener and its waiter for answers get a :class:`Share` in place of a connection.
"""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from oslo_log import log
from oslo_messaging._drivers import common

from nova_lite.rpc.rabbit_queues import ServerQueue

LOG = log.getLogger(__name__)
SHORTEST_WAIT, LONGEST_WAIT = 0.001, 1.0
"""Seconds for which the thread waits for messages before it looks for tasks. Tasks come together, at the start of a service: so
the wait is short after a task, and gets longer. A message ends a wait at once."""
PAUSE = 1.0     # seconds after a failure


class Receiver:
    """``connection`` is the driver's, made for this receiver. It is closed when the last share is."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._tasks: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._shares: set[Share] = set()
        self._lock, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    def share(self) -> Share | None:
        """For one more user; None: the connection is closed."""
        with self._lock:
            if self._ended:
                return None
            made = Share(self)
            self._shares.add(made)
            return made

    def leave(self, share: Share) -> None:
        """A share is closed."""
        with self._lock:
            self._shares.discard(share)
            is_last = not (self._shares or self._ended)
            self._ended = self._ended or is_last
        if is_last:
            self._thread.join()
            self._connection.close()

    def declare(self, make: Callable[[Any], None]) -> None:
        """Let the thread call ``make(connection)``, which declares a consumer; raises what that raises."""
        self._do(lambda: make(self._connection))

    def cancel(self, queues: list[str]) -> None:
        """Take no more messages from these queues. Those that are here have been given to their callbacks."""
        self._do(lambda: self._cancel(queues))

    def _cancel(self, queues: list[str]) -> None:
        connection = self._connection
        for consumer in [one for one in connection._consumers if one.queue_name in queues]:
            tag = connection._consumers.pop(consumer)
            connection._active_tags.pop(consumer.queue_name, None)
            connection._new_tags.discard(tag)
            try:
                consumer.cancel(tag)
            except Exception as error:      # the connection is broken: its consumers are gone with it
                LOG.debug("the consumer of %s was not cancelled: %s", consumer.queue_name, error)

    def _do(self, task: Callable[[], None]) -> None:
        done: Future[None] = Future()
        self._tasks.append((task, done))
        done.result()

    def _run(self) -> None:
        wait = SHORTEST_WAIT
        while not self._ended:
            if self._run_tasks():
                wait = SHORTEST_WAIT
            try:
                self._connection.consume(timeout=wait)
            except common.Timeout:
                wait = min(2 * wait, LONGEST_WAIT)
            except Exception:
                LOG.exception("receiving failed; again in %s s", PAUSE)
                time.sleep(PAUSE)

    def _run_tasks(self) -> bool:
        found = bool(self._tasks)
        while self._tasks:
            task, done = self._tasks.popleft()
            try:
                task()
            except Exception as error:      # raised where it is waited for
                done.set_exception(error)
            else:
                done.set_result(None)
        return found


class Share:
    """What one user of a receiver has in place of a connection of its own."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._queues: list[str] = []
        self._woken, self._stopped = threading.Event(), False

    def declare_direct_consumer(self, name: str, callback: Callable[[Any], None]) -> None:
        """Receive from a queue of answers. oslo.messaging's waiter for answers calls it; its thread has nothing to do."""
        self._declare(name, lambda connection: connection.declare_direct_consumer(name, callback))

    def declare_server_queue(self, exchange: str, key: str, callback: Callable[[Any], None], of_host: bool) -> None:
        """Receive from a queue of an RPC server."""
        def take(message: Any) -> None:
            callback(message)
            self._woken.set()

        self._declare(f"{exchange}.{key}", lambda connection: connection.declare_consumer(
            ServerQueue(connection, exchange, key, take, of_host)))

    def _declare(self, queue: str, make: Callable[[Any], None]) -> None:
        try:
            self._receiver.declare(make)
        except Exception:
            self.close()
            raise
        self._queues.append(queue)

    def consume(self, timeout: float | None = None) -> None:
        """Wait for a message of an RPC server, or the stop. The ``timeout`` is for work that a share has not."""
        if not self._stopped:
            self._woken.wait()
            self._woken.clear()

    def stop_consuming(self) -> None:
        """Receive no more."""
        if not self._stopped:
            self._receiver.cancel(self._queues)
            self._stopped = True
            self._woken.set()

    def close(self) -> None:
        """Give the share back."""
        self._receiver.leave(self)
