"""Who may call the methods of a service, and the check of the caller's identity: a table of rules before its endpoints.

A signed message is valid for WINDOW seconds, and once. Conductors and schedulers have the keys of all senders
(``rpc_senders.py``), a compute host has its own key (:class:`ControlPlane`).
"""
from __future__ import annotations

import functools
import hmac
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.rpc import expected, sender

LOG = log.getLogger(__name__)
WINDOW = 60.0           # seconds by which a message may be older or newer than now
NONCE_LENGTH = 64
MOST_HEARD = 200_000    # nonces that a process remembers
Arguments = Mapping[str, Any]
Said = Mapping[str, Any]
"""What a message says of its sender."""


def of_nobody(_arguments: Arguments) -> Iterator[str]:
    """A call that speaks for no host."""
    return iter(())


@dataclass(frozen=True)
class Rule:
    """``speaks_for``: the hosts that the arguments of a call name; they must be the caller. ``once``: whether the database
    stores the nonce. ``unsigned``: whether no signature is needed, whatever the options are."""

    by_hosts: bool = True
    by_control: bool = False
    speaks_for: Callable[[Arguments], Iterator[str]] = of_nobody
    once: bool = True
    unsigned: bool = False


NOBODY = Rule(False, False)
ANYBODY = Rule(by_control=True, once=False, unsigned=True)      # what is answered is no secret
CONTROL = Rule(False, True)
WAKE_UP = Rule(False, True, once=False)                         # by control services; a repetition is harmless


class Proofs(Protocol):
    """How a service finds out whether a message is of who sends it."""

    def are_in(self, said: Said) -> bool:
        """Whether there is a signature, and a key to check it."""

    def check(self, context: RequestContext, rule: Rule, method: str, arguments: Arguments) -> None:
        """Raise HostNotAllowed for a wrong signature, MessageReplayed for a message that was received before."""

    def forget(self) -> None:
        """The nonces that count no more."""


class SeenNonces:
    """The nonces that this process has heard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def add(self, nonce: str, until: float, name: str) -> None:
        """Raises MessageReplayed for a known nonce; ``name``: the sender."""
        with self._lock:
            if nonce in self._until:
                raise exception.MessageReplayed(host=name, reason="its message was received before")
            self._until[nonce] = until
            if len(self._until) > MOST_HEARD:
                del self._until[next(iter(self._until))]

    def forget(self, now: float) -> None:
        """Those that count no more."""
        with self._lock:
            self._until = {nonce: until for nonce, until in self._until.items() if until > now}


def check_time(sent: float, name: str) -> float:
    """Until when a nonce has to be remembered. Raises HostNotAllowed for a message that is too old or too new."""
    now = time.time()
    if abs(now - sent) > WINDOW:
        raise exception.HostNotAllowed(host=name, reason=f"its message is {now - sent:.0f} s old; do the clocks agree?")
    return sent + 2 * WINDOW


class ControlPlane:
    """On a compute host: the control plane signs its messages with the key of this host. Nonces are kept in memory, as only
    this process gets this host's messages."""

    def __init__(self, conf: cfg.ConfigOpts, host: str) -> None:
        self._host, self._own = host, sender.of_host(conf, host)
        self._seen_nonces = SeenNonces()

    def are_in(self, said: Said) -> bool:
        """Whether the control plane has signed, and this host has a key."""
        return self._own.key is not None and "macs" in said

    def check(self, context: RequestContext, rule: Rule, method: str, arguments: Arguments) -> None:
        """Whether the message is for this host, and signed with its key."""
        said = context.sender or {}
        try:
            sent, nonce = float(said["time"]), str(said["nonce"])
            wanted = sender.mac_to(self._own.key or b"", said, context, method, arguments)
            told = str(said["macs"][str(self._own.generation)])
            is_right = hmac.compare_digest(wanted.encode(), told.encode()) and len(nonce) <= NONCE_LENGTH
        except (KeyError, TypeError, ValueError):
            is_right = False
        if not is_right or said["to"] != self._host:
            raise exception.HostNotAllowed(host="(control)", reason=f"its signature is wrong for the key of {self._host}")
        self._seen_nonces.add(nonce, check_time(sent, "(control)"), "(control)")

    def forget(self) -> None:
        """The nonces that count no more."""
        self._seen_nonces.forget(time.time())


class Callers:
    """Checks each call before the endpoints of a service. A method without a rule is refused for all callers. ``cloud`` reads
    the id of the service's cloud; None, from it or instead of it: not known."""

    def __init__(self, conf: cfg.ConfigOpts, rules: Mapping[str, Rule], proofs: Proofs,
                 cloud: Callable[[], str | None] = lambda: None) -> None:
        self._rules, self._proofs, self._read_cloud = rules, proofs, cloud
        self._cloud: str | None = None
        self._required: bool = conf.rpc.require_host_keys
        self.forget = proofs.forget

    def before(self, endpoints: Sequence[object]) -> list[object]:
        """The endpoints, with a check of each call."""
        return [_CheckedEndpoint(self, endpoint) for endpoint in endpoints]

    @expected
    def admit(self, context: RequestContext, method: str, arguments: Arguments) -> None:
        """Find out who calls, and note it with the context. Raises HostNotAllowed, OtherCloud."""
        rule, said = self._rules.get(method, NOBODY), context.sender or {}
        host = said.get("host")
        try:
            if not isinstance(host, str | None):
                raise exception.HostNotAllowed(host="(none)", reason="its name is not valid")
            if host is not None:
                self._check_host(host, rule, method, arguments)
            elif not rule.by_hosts and not rule.by_control:
                raise exception.HostNotAllowed(host="(none)", reason=f"{method} may not be called")
            if self._proofs.are_in(said) and not rule.unsigned:
                self._proofs.check(context, rule, method, arguments)
            elif self._required and not rule.unsigned:
                raise exception.HostNotAllowed(host=host or "(none)", reason="its message is not signed")
        except exception.HostNotAllowed as error:
            LOG.warning("refused a call of %s: %s", method, error)
            raise
        if context.cloud is not None:
            self._check_cloud(context.cloud, host, method)
        context.caller = host

    def _check_cloud(self, theirs: str, host: str | None, method: str) -> None:
        if self._cloud is None:
            self._cloud = self._read_cloud()
        if self._cloud not in (None, theirs):
            error = exception.OtherCloud(theirs=theirs, ours=self._cloud)
            LOG.error("refused a call of %s by host %s: %s; stop this service, or give it another [rpc] exchange", method, host,
                      error.message)
            raise error

    def _check_host(self, host: str, rule: Rule, method: str, arguments: Arguments) -> None:
        if not rule.by_hosts:
            raise exception.HostNotAllowed(host=host, reason=f"{method} is not for compute hosts")
        for other in rule.speaks_for(arguments):
            if other != host:
                raise exception.HostNotAllowed(host=host, reason=f"it speaks for host {other}")


class _CheckedEndpoint:
    """One endpoint; calls of oslo.messaging pass :meth:`Callers.admit`."""

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
