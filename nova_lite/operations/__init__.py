"""The table of verbs: the operations on servers, as pure data that every service reads."""
from __future__ import annotations

from collections.abc import Iterable

from nova_lite.objects.action import Action
from nova_lite.operations.steps import GuestAt, Step, Where, named, position
from nova_lite.operations.table import BETWEEN_HOSTS, VERBS
from nova_lite.operations.verb import (
    Begins,
    Change,
    Guest,
    IfHostDies,
    Move,
    MoveKind,
    PendingCleanup,
    Runs,
    Verb,
    WithoutHost,
    check,
)

__all__ = ["BETWEEN_HOSTS", "VERBS", "Begins", "Change", "Guest", "GuestAt", "IfHostDies", "Move", "MoveKind", "PendingCleanup",
           "Runs", "Step", "Verb", "Where", "WithoutHost", "check", "known", "named", "of", "position"]


def of(action: Action) -> Verb:
    """The row of an action. Raises KeyError for a verb that only another version has."""
    return VERBS[action.verb]


def known(actions: Iterable[Action]) -> list[tuple[Action, Verb]]:
    """Actions with their rows, without the actions whose verb only another version has."""
    return [(action, VERBS[action.verb]) for action in actions if action.verb in VERBS]
