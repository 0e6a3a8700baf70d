"""Retries and polls with pauses, by tenacity.

Each loop names its pauses by a :class:`Schedule` or a :class:`Backoff`, and takes the time from a :class:`Clock`, which tests
replace. Only the named errors are retried. All others pass through at once, also
:class:`nova_lite.exception.Interrupted`, which is no Exception.
"""
from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import tenacity

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""The classes of errors to retry, or a function that says of an error whether to retry."""


class Clock:
    """Monotonic time and pauses, of green threads or native ones."""

    def monotonic(self) -> float:
        """Seconds since some moment in the past."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Pause this thread until the event is set; False when it was not set within ``seconds``."""
        return event.wait(seconds)


SYSTEM = Clock()


@dataclass(frozen=True)
class Schedule:
    """The times of further tries. ``pauses``: seconds after the first try, the second, and so on. ``endless``: the last pause
    is repeated; else the try after the last pause is the last one. ``timeout``: seconds after the beginning of the first try;
    no try begins later."""

    pauses: tuple[float, ...]
    endless: bool = False
    timeout: float = math.inf

    def pause(self, tries: int) -> float | None:
        """The pause after this many tries; None: no further try."""
        if tries <= len(self.pauses):
            return self.pauses[tries - 1]
        return self.pauses[-1] if self.endless else None


@dataclass(frozen=True)
class Backoff:
    """Pauses that grow from ``first`` to ``longest`` seconds, each of them shortened at random by up to a half: what failed at
    the same time in many processes is not tried again at the same time. ``tries``: how many there are at most; ``timeout`` as
    in :class:`Schedule`."""

    first: float
    longest: float
    growth: float = 2.0
    tries: float = math.inf
    timeout: float = math.inf
    random: Callable[[], float] = random.random

    def pause(self, tries: int) -> float | None:
        """The pause after this many tries; None: no further try."""
        return self.seconds(tries) if tries < self.tries else None

    def seconds(self, tries: int) -> float:
        """The pause after this many tries, for loops that do not end."""
        whole = self.first * self.growth ** min(tries - 1, 100)
        return min(self.longest, whole) * (1 - self.random() / 2)


def every(seconds: float, timeout: float = math.inf) -> Schedule:
    """Equal pauses."""
    return Schedule((seconds,), endless=True, timeout=timeout)


def on_error(step: Callable[[], T], errors: Errors, schedule: Schedule | Backoff, clock: Clock = SYSTEM, *,
             sleep: Callable[[float], None] | None = None,
             before_pause: Callable[[Exception, float], None] | None = None) -> T:
    """The result of ``step``, which is tried again after ``errors``; it must be one that can be run twice. Raises the last
    error at the end of the schedule.

    ``before_pause`` gets the error and the seconds of the next pause. ``sleep`` pauses in place of the clock. An exception of
    either ends the retries.
    """
    matches: Callable[[Any], bool] = (lambda error: isinstance(error, errors)) if isinstance(errors, type | tuple) else errors

    def is_to_retry(state: tenacity.RetryCallState) -> bool:
        error = _error(state)
        return isinstance(error, Exception) and matches(error)

    def announce(state: tenacity.RetryCallState) -> None:
        error = _error(state)
        if before_pause is not None and isinstance(error, Exception):
            before_pause(error, state.upcoming_sleep)

    return _retrying(schedule, clock, is_to_retry, sleep or clock.sleep, announce)(step)


def poll(look: Callable[[], T], is_end: Callable[[T], bool], schedule: Schedule | Backoff, clock: Clock = SYSTEM, *,
         before_pause: Callable[[], object] | None = None) -> T:
    """The result of ``look``, as soon as it ``is_end``; at the end of the schedule its result at that time. An exception of
    ``look`` or ``before_pause`` ends the polling."""
    def is_to_retry(state: tenacity.RetryCallState) -> bool:
        outcome = state.outcome
        return outcome is not None and not outcome.failed and not is_end(outcome.result())

    def announce(_state: tenacity.RetryCallState) -> None:
        if before_pause is not None:
            before_pause()

    return _retrying(schedule, clock, is_to_retry, clock.sleep, announce)(look)


def _retrying(schedule: Schedule | Backoff, clock: Clock, is_to_retry: Callable[[tenacity.RetryCallState], bool],
              sleep: Callable[[float], None], announce: Callable[[tenacity.RetryCallState], None]) -> tenacity.Retrying:
    began = clock.monotonic()

    def is_over(state: tenacity.RetryCallState) -> bool:
        return schedule.pause(state.attempt_number) is None or clock.monotonic() - began > schedule.timeout

    def last(state: tenacity.RetryCallState) -> Any:
        assert state.outcome is not None
        return state.outcome.result()       # raises the error of the last try

    return tenacity.Retrying(retry=is_to_retry, stop=is_over, wait=lambda state: schedule.pause(state.attempt_number) or 0.0,
                             sleep=sleep, before_sleep=announce, retry_error_callback=last)


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
