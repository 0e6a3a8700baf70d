"""Limits the calls of a service that does not answer: few calls at a time, and a pause after a failure."""
from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from nova_lite import exception

PAUSE = 5.0         # seconds in which a neighbour that did not answer is not asked again
# calls of one process. It has 20 native threads for requests: those that wait for one neighbour may never be all of them. Nor
# does it help to ask a slow neighbour for more at a time.
AT_ONCE = 10
USER_WAIT = {True: 10.0, False: 3.0}     # seconds that a request of a user is queued, by whether threads are green
SERVICE_WAIT = 180.0              # that hosts and conductors do: a crowd before a slow neighbour is no failure


class Breaker:
    """One per service and process. After a failure all calls are refused for ``PAUSE`` seconds. Then a single call tries
    whether the service is back; the others wait for its result."""

    def __init__(self, name: str, probe_seconds: float) -> None:
        self._name, self._probe_seconds = name, probe_seconds
        self._changed = threading.Condition()
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._failed_at = self._answered_at = self._refuse_until = self._probe_until = 0.0
        self._why: exception.ServiceUnavailable | None = None

    @contextlib.contextmanager
    def place(self, timeout: float) -> Iterator[None]:
        """A place among the calls under way, within ``timeout`` seconds.

        Raises ServiceUnavailable while there is no hope of an answer.
        """
        began = time.monotonic()
        probes = self._check(began + timeout)
        try:
            if not self._places.acquire(timeout=timeout):
                raise exception.ServiceUnavailable(what=self._name, reason="too many requests wait for its answer")
            try:
                self.check_since(began)         # those before us may have waited in vain
                yield
            finally:
                self._places.release()
        finally:
            if probes:
                self._probe_ends()

    def _check(self, deadline: float) -> bool:
        """Whether this call is the probe."""
        with self._changed:
            while self._why is not None:
                now = time.monotonic()
                if now >= max(self._refuse_until, self._probe_until):
                    self._probe_until = now + self._probe_seconds
                    return True
                if now < self._refuse_until or now >= deadline:
                    raise exception.ServiceUnavailable(**self._why.kwargs)
                self._changed.wait(min(deadline, self._probe_until) - now)
        return False

    def _probe_ends(self) -> None:
        """Also when it has found nothing out: the next call is the probe then."""
        with self._changed:
            self._probe_until = 0.0
            self._changed.notify_all()

    def check_since(self, began: float) -> None:
        """Raise what another call has found since a call that waited for it ``began`` (a monotonic time)."""
        with self._changed:
            if self._why is not None and self._failed_at > began:
                raise exception.ServiceUnavailable(**self._why.kwargs)

    def failed(self, error: exception.ServiceUnavailable, began: float) -> None:
        """A call that ``began`` then got no answer: refuse calls for a while, unless others were answered since."""
        with self._changed:
            if self._answered_at > began:
                return
            self._failed_at = time.monotonic()
            self._why, self._refuse_until, self._probe_until = error, self._failed_at + PAUSE, 0.0
            self._changed.notify_all()

    def answered(self) -> None:
        """It is there."""
        with self._changed:
            self._answered_at, self._why, self._probe_until = time.monotonic(), None, 0.0
            self._changed.notify_all()
