"""The sender of a message: what a client states and proves about itself. ``runtime/rpc_callers.py`` checks it.

A sender with a key signs: HMAC-SHA256 over its name, the time, a nonce, the method and the arguments. The key of a host is
derived from the control plane's key, the name of the host and a generation, so each key is stored only at its owner. The
control plane can derive each of them. It signs messages to a compute host with the key of that host.
"""
from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from oslo_config import cfg

from nova_lite import exception
from nova_lite.context import RequestContext

LEAST_LENGTH = 32       # of the master key
SIGNED = ("host", "generation", "time", "nonce")
_TO_HOST = ("to", "time", "nonce")
_WHO = ("user_id", "project_id", "roles", "is_admin")       # of the context of a message to a host


class Says(Protocol):
    """What a client needs of its sender."""

    def say(self, context: RequestContext, method: str, arguments: Mapping[str, Any], to: str | None) -> dict[str, Any] | None:
        """What a message to the server ``to`` (None: to any) carries of its sender; None: nothing."""


@dataclass(frozen=True)
class Sender:
    """``host`` is the compute host that sends; None: a control service does. Without a ``key`` it only says so."""

    host: str | None = None
    key: bytes | None = field(default=None, repr=False)
    generation: int = 0

    def say(self, context: RequestContext, method: str, arguments: Mapping[str, Any],
            to: str | None = None) -> dict[str, Any] | None:
        """What a message carries of its sender; None: nothing. The context decides nothing where it goes."""
        if self.key is None:
            return {"host": self.host} if self.host is not None else None
        said = {"host": self.host, "generation": self.generation, "time": round(time.time(), 3), "nonce": secrets.token_hex(16)}
        return {**said, "mac": mac(self.key, said, method, arguments)}


UNKNOWN = Sender()


@dataclass(frozen=True)
class ToHosts:
    """The control plane as the sender of messages to compute hosts. ``generations`` are those of the keys that a host may have;
    each of them signs."""

    master: str = field(repr=False)
    generations: Callable[[str], Collection[int]]

    def say(self, context: RequestContext, method: str, arguments: Mapping[str, Any], to: str | None) -> dict[str, Any] | None:
        """See :class:`Says`."""
        if to is None:
            return None
        said = {"host": None, "to": to, "time": round(time.time(), 3), "nonce": secrets.token_hex(16)}
        return {**said, "macs": {str(number): mac_to(derive(self.master, to, number), said, context, method, arguments)
                                 for number in self.generations(to)}}


def of_control(conf: cfg.ConfigOpts) -> Sender:
    """A control service. Raises ConfigError."""
    master = master_key(conf)
    return Sender(None, derive(master, None, 0)) if master else UNKNOWN


def of_host(conf: cfg.ConfigOpts, host: str) -> Sender:
    """The daemon of a compute host. Raises ConfigError."""
    text: str = conf.rpc.host_key
    if not text:
        if conf.rpc.require_host_keys:
            raise exception.ConfigError(reason="[rpc] require_host_keys is set, and this host has no [rpc] host_key: "
                                               f"nova-lite-manage host key-create {host} prints one")
        return Sender(host)
    generation, _, key = text.partition(":")
    try:
        return Sender(host, bytes.fromhex(key), int(generation))
    except ValueError:
        raise exception.ConfigError(reason="[rpc] host_key is not a key of nova-lite-manage host key-create") from None


def of_service(conf: cfg.ConfigOpts) -> Sender:
    """A service that may run in the control plane or on a compute host. Raises ConfigError."""
    if conf.rpc.host_key and not conf.rpc.master_key:
        return of_host(conf, conf.host)
    return of_control(conf)


def to_hosts(conf: cfg.ConfigOpts, generations: Callable[[str], Collection[int]]) -> Says:
    """The control plane as the sender of messages to compute hosts. Raises ConfigError."""
    master = master_key(conf)
    return ToHosts(master, generations) if master else UNKNOWN


def master_key(conf: cfg.ConfigOpts) -> str:
    """The key of the control plane; empty: messages are not signed. Raises ConfigError."""
    master: str = conf.rpc.master_key
    if not master and conf.rpc.require_host_keys:
        raise exception.ConfigError(reason="[rpc] require_host_keys is set, and [rpc] master_key is not")
    if master and len(master) < LEAST_LENGTH:
        raise exception.ConfigError(reason=f"[rpc] master_key has less than {LEAST_LENGTH} characters")
    return master


def derive(master: str, host: str | None, generation: int) -> bytes:
    """The key of a host; None: that of the control services."""
    return hmac.digest(master.encode(), _text("key of a sender", host, generation), "sha256")


def mac(key: bytes, said: Mapping[str, Any], method: str, arguments: Mapping[str, Any]) -> str:
    """The signature of a message."""
    return hmac.digest(key, _text("message", *(said[name] for name in SIGNED), method, _plain(arguments)), "sha256").hex()


def mac_to(key: bytes, said: Mapping[str, Any], context: RequestContext, method: str, arguments: Mapping[str, Any]) -> str:
    """The signature of a message of the control plane to a compute host."""
    values = context.to_rpc()
    who = [values.get(name) for name in _WHO]
    return hmac.digest(key, _text("message to a host", *(said[name] for name in _TO_HOST), who, method, _plain(arguments)),
                       "sha256").hex()


def _plain(arguments: Mapping[str, Any]) -> Any:
    """As they come out of a message: there all keys are text."""
    return json.loads(json.dumps(dict(arguments)))


def _text(*parts: Any) -> bytes:
    return json.dumps(parts, sort_keys=True).encode()
