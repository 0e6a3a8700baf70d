"""Questions between the two hosts of a move. A host asks the conductor, which asks the other host: a compute host takes
messages of the control plane only.

A host names its action and the question. The database says the rest: whether the host has the action, which the other host of
the move is, and which server it is about. One table has all questions, and which host may ask them.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, instances, moves
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.objects.action import Action
from nova_lite.objects.guest_moves import Plan
from nova_lite.objects.migration import Migration
from nova_lite.operations import MoveKind
from nova_lite.rpc import expected
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.conductor import ANSWER, BUSY, LOST, SILENT

LOG = log.getLogger(__name__)
SHARE = 4       # a quarter of the conductor's threads may wait for hosts; hosts call the conductor before they answer
_AWAY = (messaging.MessagingTimeout, messaging.MessageDeliveryFailure, messaging.RemoteError)


@dataclass(frozen=True)
class _Asked:
    """A question to host ``other`` about an action, its move and the record of its server."""

    other: str
    action: Action
    move: Migration
    server: dict[str, Any]


@dataclass(frozen=True)
class _Question:
    """``kind``: the moves in which the question is allowed; ``by_source``, ``by_destination``: the host that may ask."""

    kind: MoveKind
    ask: Callable[[ComputeAPI, RequestContext, _Asked], Any]
    by_source: bool = False
    by_destination: bool = False


def _leave(compute: ComputeAPI, context: RequestContext, it: _Asked) -> Any:
    return compute.leave(context, it.other, it.move.instance_uuid, it.action.id, it.action.owner or "", it.move.uuid)


def _holds(compute: ComputeAPI, context: RequestContext, it: _Asked) -> Any:
    return compute.holds(context, it.other, it.server, it.move.uuid)


def _arrived(compute: ComputeAPI, context: RequestContext, it: _Asked) -> Any:
    return compute.arrived(context, it.other, it.server)


def _offer(compute: ComputeAPI, context: RequestContext, it: _Asked) -> Any:
    offer = compute.offer_for_live_migration(context, it.other, it.move.instance_uuid,
                                             Plan.from_primitive((it.move.facts or {})["plan"]))
    return offer.to_primitive() if offer is not None else None


def _waits(compute: ComputeAPI, context: RequestContext, it: _Asked) -> Any:
    return compute.waits_for_rest(context, it.other, it.move.instance_uuid)


QUESTIONS: dict[str, _Question] = {
    "leave": _Question(MoveKind.COLD, _leave, by_destination=True),
    "arrived": _Question(MoveKind.COLD, _arrived, by_destination=True),
    "holds": _Question(MoveKind.SETTLES, _holds, by_source=True, by_destination=True),
    "offer_for_live_migration": _Question(MoveKind.LIVE, _offer, by_destination=True),
    "waits_for_rest": _Question(MoveKind.LIVE, _waits, by_source=True),
}


class BetweenHosts:
    """An endpoint of the conductor."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, compute: ComputeAPI) -> None:
        self._conf, self._db, self._compute = conf, db, compute
        self._lock, self._waiting = threading.Lock(), 0

    @expected
    def ask_other_host(self, context: RequestContext, action_id: int, owner: str, question: str) -> dict[str, Any]:
        """See :meth:`ConductorAPI.ask_other_host`. Raises HostNotAllowed, InstanceNotFound, and what the other host raises."""
        try:
            with self._db.read() as conn:
                asked = _asked(conn, context.caller, action_id, owner, question)
        except exception.LeaseLost:
            return {LOST: True}
        with self._place() as is_free:
            if not is_free:
                return {BUSY: True}
            try:
                return {ANSWER: QUESTIONS[question].ask(self._compute, admin_context(), asked)}
            except _AWAY as error:
                LOG.warning("host %s does not answer '%s': %s", asked.other, question, error,
                            extra={"instance_uuid": asked.move.instance_uuid})
                return {SILENT: True}

    @contextmanager
    def _place(self) -> Iterator[bool]:
        """Whether one more thread may wait for an answer."""
        with self._lock:
            is_free = self._waiting < max(1, self._conf.executor_thread_pool_size // SHARE)
            self._waiting += is_free
        try:
            yield is_free
        finally:
            with self._lock:
                self._waiting -= is_free


def _asked(conn: sa.Connection, caller: str | None, action_id: int, owner: str, name: str) -> _Asked:
    """The question and the host for it. Raises LeaseLost, HostNotAllowed or InstanceNotFound."""
    action, question = actions.get(conn, action_id), QUESTIONS.get(name)
    if action is None or action.state != objects.RUNNING or action.owner != owner:
        raise exception.LeaseLost(action_id=action_id, owner=owner)
    if (action.stage, action.host) != (objects.COMPUTE, caller):
        raise exception.HostNotAllowed(host=caller or "(none)", reason=f"action {action_id} is not its own")
    verb = operations.of(action)
    if question is None or verb.move is None or verb.move.kind is not question.kind:
        raise exception.HostNotAllowed(host=caller, reason=f"'{verb.name}' does not ask {name!r}")
    move = moves.get(conn, action.arguments["migration_id"])
    others = {move.source_compute: (question.by_destination, move.dest_compute),
              move.dest_compute: (question.by_source, move.source_compute)}
    other = next((host for host, (allowed, asking) in others.items() if allowed and asking == caller and host != caller), None)
    if other is None:
        raise exception.HostNotAllowed(host=caller, reason=f"no other host of move {move.id} is to answer it {name!r}")
    return _Asked(other, action, move, instances.get(conn, action.instance_uuid).to_primitive())
