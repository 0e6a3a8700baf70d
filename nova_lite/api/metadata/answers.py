"""Answers that are kept for a while, in bounded memory, and asked for once however many want them at the same time."""
from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
UNKNOWN_SECONDS = 1.0
"""How long it is remembered that there was no answer."""


class _Kept(NamedTuple):
    expires: float
    value: Any
    size: int


class Answers(Generic[T]):
    """``seconds`` is how long an answer is kept (0: never), ``limit`` the bytes that all of them may have together."""

    def __init__(self, seconds: float, limit: int, clock: Callable[[], float]) -> None:
        self._seconds, self._limit, self._clock = seconds, limit, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._size = 0
        self._asked: dict[Hashable, Future[T | None]] = {}

    def get(self, key: Hashable, ask: Callable[[], T | None], size: Callable[[T], int], keep: bool = True) -> T | None:
        """The answer of ``ask``, or one of a moment ago; raises the errors of ``ask``. Only None is cached unless ``keep``."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and self._clock() < kept.expires:
                self._kept.move_to_end(key)
                return kept.value
            asked = self._asked.get(key)
            if asked is None:
                mine = self._asked[key] = Future()
        if asked is not None:
            return asked.result()
        try:
            value = ask()
        except BaseException as error:
            with self._lock:
                self._is_current(key, mine)
            mine.set_exception(error)
            raise
        with self._lock:
            if self._is_current(key, mine) and (keep or value is None):
                self._keep(key, value, size(value) if value is not None else 0)
        mine.set_result(value)
        return value

    def forget(self, key: Hashable) -> None:
        """Something has changed: discard the cached answer and those of calls under way."""
        with self._lock:
            self._asked.pop(key, None)
            self._drop(key)

    def _is_current(self, key: Hashable, mine: Future[T | None]) -> bool:
        if self._asked.get(key) is not mine:
            return False
        del self._asked[key]
        return True

    def _keep(self, key: Hashable, value: T | None, size: int) -> None:
        self._drop(key)
        seconds = self._seconds if value is not None else min(self._seconds, UNKNOWN_SECONDS)
        size += 200     # what an entry itself takes
        if seconds <= 0 or size > self._limit:
            return
        self._kept[key] = _Kept(self._clock() + seconds, value, size)
        self._size += size
        while self._size > self._limit:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept.size
