"""Clocks for code that pauses (``nova_lite.retry``)."""
from __future__ import annotations

import threading
import time

from nova_lite.retry import Clock


class FastClock(Clock):
    """A pause takes ``longest`` seconds at most. After each pause ``skips`` seconds more have passed: a wait in vain comes to
    its deadline."""

    def __init__(self, longest: float = 0.01, skips: float = 0.0) -> None:
        self.longest, self.skips = longest, skips
        self._skipped = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, self.longest))
        self._skipped += self.skips

    def wait(self, event: threading.Event, seconds: float) -> bool:
        is_set = event.wait(min(seconds, self.longest))
        self._skipped += self.skips
        return is_set


class ManualClock(Clock):
    """No real time passes: a pause puts the clock forward."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if not event.is_set():
            self.sleep(seconds)
        return event.is_set()
