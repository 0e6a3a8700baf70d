"""The table of verbs: what is done to servers, as pure data that every service reads."""
from __future__ import annotations

from collections.abc import Iterable

from nova_lite.objects.action import Action
from nova_lite.operations.steps import GuestAt, Step, Where, named, position
from nova_lite.operations.table import BETWEEN_HOSTS, VERBS
from nova_lite.operations.verb import (
    Begins,
    Change,
    Debt,
    Guest,
    IfHostDies,
    Move,
    MoveKind,
    Runs,
    Verb,
    WithoutHost,
    check,
)

__all__ = ["BETWEEN_HOSTS", "VERBS", "Begins", "Change", "Debt", "Guest", "GuestAt", "IfHostDies", "Move", "MoveKind", "Runs",
           "Step", "Verb", "Where", "WithoutHost", "check", "known", "named", "of", "position"]


def of(action: Action) -> Verb:
    """The row of an action. Raises KeyError for what another version wrote."""
    return VERBS[action.verb]


def known(actions: Iterable[Action]) -> list[tuple[Action, Verb]]:
    """Actions with their rows, without those that only another version understands."""
    return [(action, VERBS[action.verb]) for action in actions if action.verb in VERBS]
