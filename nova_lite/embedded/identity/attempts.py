"""Limits for wrong passwords: by user at one address, and by address.

There is no limit by user alone: with one, anybody could lock out the admin, from anywhere. So a user that is refused at one
address can still log in at another one. The counts are in the memory of the process, so each process has its own.
"""
from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from nova_lite import exception
from nova_lite.runtime.http.sockets import network_of

WINDOW = 60.0               # seconds for which a failure counts
PER_USER = 5                # failed logins of one user from one address within the window
PER_ADDRESS = 30            # failures from one address within the window, of all users
MOST_KEYS = 10_000          # entries; the one with the oldest last failure is removed first


class Attempts:
    """The latest failures. The caller lets one thread in at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[bytes, list[float]] = OrderedDict()

    def check(self, user: str, address: str) -> None:
        """Raise TooManyLogins when the limit of the user at this address, or of the address, is reached."""
        now = self._clock()
        for key, most in _keys(user, address):
            recent = [at for at in self._failures.get(key, ()) if at > now - WINDOW]
            if len(recent) >= most:
                raise exception.TooManyLogins(retry_after=max(1, math.ceil(recent[-most] + WINDOW - now)))

    def failed(self, user: str, address: str) -> None:
        """Count a wrong password."""
        for key, most in _keys(user, address):
            self._failures[key] = [*self._failures.pop(key, ())[-(most - 1):], self._clock()]
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Forget the failures of this user at this address. Those of the address stay: it may try others' passwords, too."""
        self._failures.pop(_keys(user, address)[0][0], None)


def _keys(user: str, address: str) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    """The two keys with their limits. Digests, because a name may be as long as a request."""
    network = _network(address)
    return (_digest(f"{network} {user}"), PER_USER), (_digest(network), PER_ADDRESS)


def _network(address: str) -> str:
    """Of a list that a proxy passes on, only its last is known."""
    try:
        return network_of(address.rpartition(",")[2].strip())
    except ValueError:      # a local call has none
        return address


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
