"""How a service with a database checks the sender of a message.

The nonce is stored in the database, since a repeated message may reach another process. That costs one small INSERT per
message, which also checks the key. Reports and wake-ups are not stored: a repetition within the window has no further effect. A
process refuses those whose nonce it has seen itself.
"""
from __future__ import annotations

import hmac
import time

from oslo_config import cfg

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import host_keys
from nova_lite.db.core import Database
from nova_lite.rpc import sender
from nova_lite.runtime.rpc_callers import NONCE_LENGTH, Arguments, Rule, Said, SeenNonces, check_time

GOOD_SECONDS = 10.0     # after which the database is asked again whether a key is good


class Senders:
    """Compute hosts and control services; their keys are made of the control plane's."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database) -> None:
        self._db, self._master = db, sender.master_key(conf)
        self._good: dict[tuple[str, int], float] = {}       # keys that were good at a time, by time.monotonic()
        self._seen_nonces = SeenNonces()

    def are_in(self, said: Said) -> bool:
        """Whether there is a signature, and a key of the control plane."""
        return bool(self._master) and "mac" in said

    def check(self, context: RequestContext, rule: Rule, method: str, arguments: Arguments) -> None:
        """Whether the sender is authentic."""
        said = context.sender or {}
        host, name = said.get("host"), said.get("host") or "(control)"
        try:
            sent, generation, nonce = float(said["time"]), int(said["generation"]), str(said["nonce"])
            wanted = sender.mac(sender.derive(self._master, host, generation), said, method, arguments)
            is_right = hmac.compare_digest(wanted.encode(), str(said["mac"]).encode()) and len(nonce) <= NONCE_LENGTH
        except (KeyError, TypeError, ValueError):
            is_right = False
        if not is_right:
            raise exception.HostNotAllowed(host=name, reason="its signature is wrong")
        until = check_time(sent, name)
        if host is None and not rule.by_control:
            raise exception.HostNotAllowed(host=name, reason=f"{method} is for compute hosts")
        if rule.once:
            self._db.write(host_keys.spend, host, generation, nonce, until)
            return
        if host is not None:
            self._check_good(host, generation)
        self._seen_nonces.add(nonce, until, name)

    def _check_good(self, host: str, generation: int) -> None:
        """For messages whose nonce is not stored: the key is checked in the database now and then."""
        now = time.monotonic()
        if now - self._good.get((host, generation), float("-inf")) > GOOD_SECONDS:
            with self._db.read() as conn:
                host_keys.check(conn, host, generation)
            self._good[(host, generation)] = now

    def forget(self) -> None:
        """The nonces that count no more."""
        now = time.time()
        self._seen_nonces.forget(now)
        if self._master:
            self._db.write(host_keys.forget_nonces, now)
