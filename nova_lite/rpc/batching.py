"""Collects the steps of many threads into few messages.

A step that arrives while a message is under way waits for the next message, together with all others that have arrived. So a
single step is sent at once, and under load a message has as many steps as arrived during one round trip. There is no timer.
"""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import oslo_messaging as messaging

SENDERS = 2          # messages under way at the same time: the next is made while one waits for its answer
LIMIT = 50           # steps in one message

Step = tuple[str, dict[str, Any]]


class Batcher:
    """``send`` takes steps and returns as many answers, in their order."""

    def __init__(self, send: Callable[[list[Step]], Sequence[Any]], senders: int = SENDERS, limit: int = LIMIT) -> None:
        self._send, self._senders, self._limit = send, senders, limit
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Step, Future[Any]]] = deque()
        self._busy = 0
        self._threads: ThreadPoolExecutor | None = None

    def ask(self, steps: Sequence[Step]) -> list[Any]:
        """The answers to these steps; raises what ``send`` raised."""
        futures: list[Future[Any]] = [Future() for _ in steps]
        with self._lock:
            self._waiting.extend(zip(steps, futures, strict=True))
            start = min(self._senders - self._busy, -(-len(steps) // self._limit))
            self._busy += max(0, start)
            if self._threads is None:       # most processes that hold a client never send a step
                self._threads = ThreadPoolExecutor(self._senders, thread_name_prefix="steps")
        for _ in range(start):
            self._threads.submit(self._work)
        return [future.result() for future in futures]

    def _work(self) -> None:
        while True:
            with self._lock:
                batch = [self._waiting.popleft() for _ in range(min(self._limit, len(self._waiting)))]
                if not batch:
                    self._busy -= 1
                    return
            self._send_some(batch)

    def _send_some(self, batch: list[tuple[Step, Future[Any]]]) -> None:
        try:
            answers = self._send([step for step, _ in batch])
        except Exception as error:
            if isinstance(error, messaging.MessagingTimeout):       # no conductor answers: single calls would only take longer
                for _, future in batch:
                    future.set_exception(error)
            elif len(batch) > 1:      # one of them may be to blame: each for itself, so that the others get through
                for one in batch:
                    self._send_some([one])
            else:
                batch[0][1].set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)
