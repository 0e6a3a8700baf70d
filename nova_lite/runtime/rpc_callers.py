"""Who may call the methods of a service, and whether who calls is who it says: a table of rules before its endpoints.

A signed message counts for WINDOW seconds and once: its nonce is written down in the database, since a message that is sent
again may come to another process. That costs one small INSERT a message, which asks at the same time whether the key is still
good. Reports and wake-ups are left out: one that comes again within the window says what is so anyway. A process refuses those
of which it knows the nonce itself.
"""
from __future__ import annotations

import functools
import hmac
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import host_keys
from nova_lite.db.core import Database
from nova_lite.rpc import expected, sender

LOG = log.getLogger(__name__)
WINDOW = 60.0           # seconds by which a message may be older or newer than now
NONCE_LENGTH = 64
MOST_HEARD = 200_000    # nonces of reports that are remembered
GOOD_SECONDS = 10.0     # after which the database is asked again whether a key is good
Arguments = Mapping[str, Any]


def of_nobody(_arguments: Arguments) -> Iterator[str]:
    """A call that speaks for no host."""
    return iter(())


@dataclass(frozen=True)
class Rule:
    """``speaks_for``: the hosts for which a call speaks, by its arguments; they must be the caller. ``once``: whether the
    database remembers the nonce. ``unsigned``: whether nobody need sign, whatever the options say."""

    by_hosts: bool = True
    by_control: bool = False
    speaks_for: Callable[[Arguments], Iterator[str]] = of_nobody
    once: bool = True
    unsigned: bool = False


NOBODY = Rule(False, False)
ANYBODY = Rule(by_control=True, once=False, unsigned=True)      # what is answered is no secret
WAKE_UP = Rule(False, True, once=False)                         # by control services; told twice it does no harm


class Callers:
    """Stands before the endpoints of a service. A method without a rule is refused, whoever calls it."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        self._db, self._master = db, sender.master_key(conf)
        self._required: bool = conf.rpc.require_host_keys
        self._lock = threading.Lock()
        self._good: dict[tuple[str, int], float] = {}       # keys that were good at a time, by time.monotonic()
        self._heard: dict[str, float] = {}                  # nonces of reports, and until when they count

    def before(self, endpoints: Sequence[object]) -> list[object]:
        """The endpoints, with each call looked at first."""
        return [_Door(self, endpoint) for endpoint in endpoints]

    def forget(self) -> None:
        """The nonces that count no more."""
        now = time.time()
        with self._lock:
            self._heard = {nonce: until for nonce, until in self._heard.items() if until > now}
        if self._master:
            self._db.write(host_keys.forget_nonces, now)

    @expected
    def admit(self, context: RequestContext, method: str, arguments: Arguments) -> None:
        """Find out who calls, and note it with the context. Raises HostNotAllowed."""
        rule, said = self._rules.get(method, NOBODY), context.sender or {}
        host = said.get("host")
        try:
            if not isinstance(host, str | None):
                raise exception.HostNotAllowed(host="(none)", reason="what it calls itself is no name")
            if host is not None:
                self._check_host(host, rule, method, arguments)
            elif not rule.by_hosts and not rule.by_control:
                raise exception.HostNotAllowed(host="(none)", reason=f"{method} is nobody's to call")
            if self._master and "mac" in said and not rule.unsigned:
                self._verify(said, rule, method, arguments)
            elif self._required and not rule.unsigned:
                raise exception.HostNotAllowed(host=host or "(none)", reason="its message is not signed")
        except exception.HostNotAllowed as error:
            LOG.warning("refused a call of %s: %s", method, error)
            raise
        context.caller = host

    def _check_host(self, host: str, rule: Rule, method: str, arguments: Arguments) -> None:
        if not rule.by_hosts:
            raise exception.HostNotAllowed(host=host, reason=f"{method} is not for compute hosts")
        for other in rule.speaks_for(arguments):
            if other != host:
                raise exception.HostNotAllowed(host=host, reason=f"it speaks for host {other}")

    def _verify(self, said: Mapping[str, Any], rule: Rule, method: str, arguments: Arguments) -> None:
        host, name = said.get("host"), said.get("host") or "(control)"
        try:
            sent, generation, nonce = float(said["time"]), int(said["generation"]), str(said["nonce"])
            wanted = sender.mac(sender.derive(self._master, host, generation), said, method, arguments)
            is_right = hmac.compare_digest(wanted.encode(), str(said["mac"]).encode()) and len(nonce) <= NONCE_LENGTH
        except (KeyError, TypeError, ValueError):
            is_right = False
        if not is_right:
            raise exception.HostNotAllowed(host=name, reason="its signature is wrong")
        now = time.time()
        if abs(now - sent) > WINDOW:
            raise exception.HostNotAllowed(host=name, reason=f"its message is {now - sent:.0f} s old; do the clocks agree?")
        if host is None and not rule.by_control:
            raise exception.HostNotAllowed(host=name, reason=f"{method} is for compute hosts")
        until = sent + 2 * WINDOW
        if rule.once:
            self._db.write(host_keys.spend, host, generation, nonce, until)
            return
        if host is not None:
            self._check_good(host, generation)
        with self._lock:
            if nonce in self._heard:
                raise exception.MessageReplayed(host=name, reason="its message has come before")
            self._heard[nonce] = until
            if len(self._heard) > MOST_HEARD:
                del self._heard[next(iter(self._heard))]

    def _check_good(self, host: str, generation: int) -> None:
        """For messages whose nonce the database is not told: it is asked once in a while."""
        now = time.monotonic()
        if now - self._good.get((host, generation), float("-inf")) > GOOD_SECONDS:
            with self._db.read() as conn:
                host_keys.check(conn, host, generation)
            self._good[(host, generation)] = now

class _Door:
    """One endpoint; what oslo.messaging calls on it goes through :meth:`Callers.admit`."""

    def __init__(self, callers: Callers, endpoint: object) -> None:
        self._callers, self._endpoint = callers, endpoint

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._endpoint, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(context: RequestContext, **arguments: Any) -> Any:
            self._callers.admit(context, name, arguments)
            return found(context, **arguments)
        return call
