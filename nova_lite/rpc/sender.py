"""Who sends a message: what a client says and proves of itself. The conductor looks at it (``conductor/callers.py``).

A sender with a key signs: HMAC-SHA256 over who it is, the time, a nonce, the method and its arguments. The key of a host is
made of the control plane's key, the host's name and a generation, so no key is stored anywhere but with its owner.
"""
from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg

from nova_lite import exception

LEAST_LENGTH = 32       # of the master key
SIGNED = ("host", "generation", "time", "nonce")


@dataclass(frozen=True)
class Sender:
    """``host`` is the compute host that sends; None: a control service does. Without a ``key`` it only says so."""

    host: str | None = None
    key: bytes | None = field(default=None, repr=False)
    generation: int = 0

    def say(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a message carries of its sender; None: nothing."""
        if self.key is None:
            return {"host": self.host} if self.host is not None else None
        said = {"host": self.host, "generation": self.generation, "time": round(time.time(), 3), "nonce": secrets.token_hex(16)}
        return {**said, "mac": mac(self.key, said, method, arguments)}


UNKNOWN = Sender()


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
        raise exception.ConfigError(reason="[rpc] host_key is none that nova-lite-manage host key-create prints") from None


def of_service(conf: cfg.ConfigOpts) -> Sender:
    """A service that may run in the control plane or on a compute host. Raises ConfigError."""
    if conf.rpc.host_key and not conf.rpc.master_key:
        return of_host(conf, conf.host)
    return of_control(conf)


def master_key(conf: cfg.ConfigOpts) -> str:
    """The key of the control plane; empty: nobody signs. Raises ConfigError."""
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
    # as it comes out of a message: there all keys are text
    plain = json.loads(json.dumps(dict(arguments)))
    return hmac.digest(key, _text("message", *(said[name] for name in SIGNED), method, plain), "sha256").hex()


def _text(*parts: Any) -> bytes:
    return json.dumps(parts, sort_keys=True).encode()
