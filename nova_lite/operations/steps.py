"""The steps of verbs that two hosts work on: which host does a step, where the guest may run, and which step follows a death.

:func:`position` finds the step of an action; no other code does.
"""
from __future__ import annotations

import enum
from dataclasses import dataclass

from nova_lite.objects import migration, states
from nova_lite.objects.migration import Migration


class Where(enum.Enum):
    """The host of a move that does a step."""

    SOURCE = "source"
    DESTINATION = "destination"


class GuestAt(enum.Enum):
    """Where the guest may run during a step."""

    SOURCE = "source"
    DESTINATION = "destination"
    ASK = "where the hypervisors say"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One row. ``notifications`` are sent when the step begins: (name, phase). ``part`` is the name of a notification with a
    start and an end, which are those of the step.

    ``partner_goes_on_at``: the step that the other host continues with when the host of this step is dead. None: the action
    waits for the dead host.
    """

    name: str
    where: Where
    guest: GuestAt
    task_state: str | None = None
    status: str | None = None               # of the move
    partner_goes_on_at: str | None = None
    only_when_given_up: bool = False        # the partner goes on once the dead host was given up
    survives_reset: bool = True             # os-resetState leaves the step to its host
    copies_memory: bool = False
    notifications: tuple[tuple[str, str], ...] = ()
    part: str | None = None

    def host(self, move: Migration) -> str | None:
        """The host of a move that does the step."""
        return move.source_compute if self.where is Where.SOURCE else move.dest_compute


_PRE, _POST, _ARRIVES = "live_migration_pre", "live_migration_post", "live_migration_post_dest"
ROLLBACK = "live_migration_rollback"        # told from when the guest is known to stay
ARRIVAL = _ARRIVES                          # told until the guest is known to be there
UNDO, RETURN = "undo", "return"
UNDO_REASON = "undo"                        # in the arguments of a cold move that is undone

COLD = (
    Step(name=states.RESIZE_PREP, where=Where.DESTINATION, guest=GuestAt.SOURCE, task_state=states.RESIZE_PREP,
         status=migration.PRE_MIGRATING, partner_goes_on_at=UNDO, survives_reset=False, part="resize_prep"),
    Step(name=states.RESIZE_MIGRATING, where=Where.DESTINATION, guest=GuestAt.SOURCE, task_state=states.RESIZE_MIGRATING,
         status=migration.MIGRATING, partner_goes_on_at=UNDO, part="resize"),
    Step(name=states.RESIZE_MIGRATED, where=Where.DESTINATION, guest=GuestAt.SOURCE, task_state=states.RESIZE_MIGRATED,
         status=migration.POST_MIGRATING, partner_goes_on_at=UNDO, part="resize_finish"),
    Step(name=states.RESIZE_FINISH, where=Where.DESTINATION, guest=GuestAt.DESTINATION, task_state=states.RESIZE_FINISH,
         status=migration.POST_MIGRATING),
    Step(name=UNDO, where=Where.SOURCE, guest=GuestAt.SOURCE))
REVERT = (
    Step(name="leave", where=Where.DESTINATION, guest=GuestAt.DESTINATION, task_state=states.RESIZE_REVERTING,
         status=migration.REVERTING, survives_reset=False),
    Step(name=RETURN, where=Where.SOURCE, guest=GuestAt.SOURCE, status=migration.REVERTING))
LIVE = (
    Step(name="prepare", where=Where.DESTINATION, guest=GuestAt.SOURCE, status=migration.PREPARING,
         partner_goes_on_at="settle", notifications=((_PRE, "start"),)),
    Step(name="copy", where=Where.SOURCE, guest=GuestAt.ASK, status=migration.RUNNING, partner_goes_on_at="lost",
         copies_memory=True, notifications=((_PRE, "end"),)),
    Step(name="finish", where=Where.DESTINATION, guest=GuestAt.DESTINATION,
         notifications=((_POST, "start"), (_POST, "end"), (_ARRIVES, "start"))),
    Step(name="undo", where=Where.DESTINATION, guest=GuestAt.SOURCE, partner_goes_on_at="settle"),
    Step(name="left", where=Where.SOURCE, guest=GuestAt.DESTINATION, partner_goes_on_at="lost"),
    Step(name="settle", where=Where.SOURCE, guest=GuestAt.SOURCE, notifications=((ROLLBACK, "start"),)),
    Step(name="lost", where=Where.DESTINATION, guest=GuestAt.ASK),
    Step(name="mend", where=Where.SOURCE, guest=GuestAt.DESTINATION, partner_goes_on_at="alone", only_when_given_up=True,
         copies_memory=True),
    Step(name="alone", where=Where.DESTINATION, guest=GuestAt.DESTINATION))


def named(steps: tuple[Step, ...], name: str | None) -> Step | None:
    """The step with the name that is in ``Action.step``. None: the states of the server and of the move tell the step."""
    return next((step for step in steps if step.name == name), None)


def position(steps: tuple[Step, ...], name: str | None, task_state: str | None, status: str) -> Step | None:
    """The step of an action: the step with its name, else the step with the task_state of its server. A server that
    os-resetState has declared idle has no task_state: then the last step with the status of the move."""
    found = named(steps, name)
    if found is not None:
        return found
    same = [step for step in steps if (step.task_state == task_state if task_state is not None else step.status == status)]
    return same[-1] if same else None
