"""The columns of the table of verbs: everything that the control plane needs to know about a verb."""
from __future__ import annotations

import enum
from dataclasses import dataclass

from nova_lite import exception
from nova_lite.objects import migration, states
from nova_lite.objects.instance import Instance
from nova_lite.operations.steps import Step


class Begins(enum.Enum):
    """Who claims the action first."""

    CONDUCTOR = "conductor"         # a conductor, which asks the scheduler for a host
    HOST = "host"                   # the host of the server
    SOURCE = "source"               # the old host of the move
    DESTINATION = "destination"     # the new host of the move


class IfHostDies(enum.Enum):
    """What happens to an action whose host is dead."""

    WAIT = "wait"                   # the action waits for the host; a verb that keeps the state follows an evacuated server
    PARTNER = "partner"             # the other host of the move continues
    ANOTHER = "another"             # a conductor chooses another host, unless the guest may run at the dead one
    DONE = "done"                   # a conductor ends the action; the host removes its part when it is back
    STAY_SHELVED = "stay shelved"   # a shelved server stays shelved; a server whose guest may run stays where that is
    FAIL = "fail"                   # the server ends in ``fails_in``
    FAIL_IF_BEGUN = "fail if begun"     # as FAIL once a worker has claimed the action; else the server stays as it was


class WithoutHost(enum.Enum):
    """What a conductor does with an action that does not begin there, and whose server has no host."""

    REFUSE = "refuse"               # the action fails
    DELETE = "delete"               # the conductor releases ports and volumes, and deletes the server
    DETACH = "detach"               # the conductor releases the volume
    UNDO = "undo"                   # the conductor releases the volume, and the action fails: its request died half-way


class Guest(enum.Enum):
    """Where the guest may be while the verb is under way."""

    ONE = "one"                     # at one host
    EITHER = "either"               # at the source or at the destination
    RETURNS = "returns"             # at the destination; a source that starts again may have an older guest


class Runs(enum.Enum):
    """Among which threads of a host the verb runs."""

    SHORTLY = "shortly"
    LONG = "long"                   # copies disks or memory, or waits for another service or host; may last for hours
    BUILD = "build"                 # at most ``[compute] max_concurrent_builds`` at once


class PendingCleanup(enum.Enum):
    """What another service may still hold after an action failed: see ``conductor/deferred_cleanup.py``."""

    IMAGE = "image"                 # an image that never gets its data
    SNAPSHOTS = "snapshots"         # snapshots of volumes that no image names
    ANSWER = "answer"               # the Volume service waits for the result of an exchange of volumes


class MoveKind(enum.Enum):
    """The kinds of moves of a guest."""

    COLD = "cold"
    SETTLES = "settles"             # confirms or reverts a cold move
    LIVE = "live"
    EVACUATION = "evacuation"


@dataclass(frozen=True)
class Move:
    """What a verb writes to its row of ``migrations``."""

    kind: MoveKind
    statuses: tuple[str, ...]               # in order, before the end; a host writes all but the first
    succeeds_as: str
    fails_as: str = migration.ERROR         # once a host has worked on the move
    type: str | None = None                 # migration_type; None: an earlier verb has written the row
    to_source: bool = False                 # the guest goes to the source
    is_final: bool = False                  # a success counts even when another verb has begun on the server meanwhile


@dataclass(frozen=True, kw_only=True)
class Change:
    """The preconditions of a change of a server.

    ``name`` stands in errors ("Cannot 'reboot' instance ..."), ``action`` in os-instance-actions. Empty ``vm_states`` or
    ``task_states`` allow any state.
    """

    name: str
    action: str
    vm_states: tuple[str, ...]
    task_states: tuple[str | None, ...] = (None,)
    respects_lock: bool = True
    must_have_launched: bool = True
    with_shares: bool = True                # False: refused for a server with shares of files, as in Nova


@dataclass(frozen=True, kw_only=True)
class Verb(Change):
    """One row of the table.

    ``request`` is the route that asks for the verb: method and path, or the name of a server action.
    ``event`` is the name of the host's work in os-instance-actions, without its prefix ``compute_``. ``working`` are the
    task_states in order; the request sets the first. A success sets vm_state ``ends_in`` and ``power_state``. A failure sets
    vm_state ``fails_in``, unless the host reports another state. None leaves the state as it was. ``notification`` is the name
    in notifications.
    """

    request: str
    event: str
    waiting_event: str | None = None        # the event while the action waits for a dead host; None: ``event``
    working: tuple[str, ...] = ()
    ends_in: str | None = None
    power_state: int | None = None
    fails_in: str | None = None
    begins: Begins = Begins.HOST
    if_host_dies: IfHostDies
    without_host: WithoutHost = WithoutHost.REFUSE
    runs: Runs = Runs.SHORTLY
    guest: Guest = Guest.ONE
    move: Move | None = None
    is_repeatable: bool = False             # a second request joins an open action of this verb
    is_given_up: bool = True                # the action fails after ``[conductor] max_attempts`` workers
    steps: tuple[Step, ...] = ()            # of a verb whose work goes from host to host
    new_server: bool = False                # the server has no guest before, and no host after a failure
    changes_flavor: bool = False
    takes_guest_away: bool = False          # the guest leaves its host, or its memory is saved to a disk
    stops_guest: bool = False               # the virtual CPUs are stopped
    freezes_guest: bool = False             # the file systems of the guest may be frozen
    ends_waiting_move: bool = False         # a success confirms a cold move that waits for its user
    forgets_files: bool = False             # a failure deletes the user's injected files (personality) from the record
    writes: frozenset[str] = frozenset()    # the columns of the server that the host may write, besides the states
    notes: frozenset[str] = frozenset()         # the arguments that the host may add to the action
    hands_over: frozenset[str] = frozenset()    # the arguments that the host may add for the other host of its move
    exchanges_volume: bool = False          # the host may put another volume into a block device
    pending_cleanup: PendingCleanup | None = None
    notification: str | None = None
    notification_at_conductor: str | None = None    # the name while a conductor works, where that differs

    @property
    def task_state(self) -> str | None:
        """The task_state that the request sets."""
        return self.working[0] if self.working else None

    @property
    def is_delete(self) -> bool:
        """True when a success deletes the server for good."""
        return self.ends_in == states.DELETED

    @property
    def keeps_state(self) -> bool:
        """True when the verb changes no state of the server, whether it succeeds or fails."""
        return self.ends_in is None and not self.working

    @property
    def follows_guest(self) -> bool:
        """True when the verb keeps the state and is allowed in any task_state. Such an action blocks no other operation. It
        waits while the guest moves (``BETWEEN_HOSTS``), and is then done at the guest's new host."""
        return self.keeps_state and not self.task_states

    @property
    def is_done_at_guest(self) -> bool:
        """Whether only the server's present host may do the verb. A delete is done wherever files of the server are."""
        return self.begins is Begins.HOST and not self.is_delete

    @property
    def is_cold_move(self) -> bool:
        """True for a resize and a cold migration, but not for their confirmation and revert."""
        return self.move is not None and self.move.kind is MoveKind.COLD

    @property
    def settles_move(self) -> bool:
        """True for the confirmation and the revert of a cold move."""
        return self.move is not None and self.move.kind is MoveKind.SETTLES

    @property
    def survives_reset(self) -> bool:
        """Whether os-resetState leaves the action to its hosts in each of its steps."""
        return bool(self.steps) and all(step.survives_reset for step in self.steps)

    def waits_for(self, other: Verb) -> bool:
        """Whether the verb must wait for an open action of ``other``, which the server's task_state does not show."""
        if self.stops_guest:
            return other.freezes_guest
        return self.takes_guest_away and other.keeps_state and not other.follows_guest


def check(change: Change, instance: Instance, may_override_lock: bool = False) -> None:
    """Raise InstanceIsLocked, InstanceNotReady, InstanceInvalidState or ForbiddenWithShare (all 409) where a change is not
    allowed."""
    if instance.locked and change.respects_lock and not may_override_lock:
        raise exception.InstanceIsLocked(instance_id=instance.uuid)
    if change.must_have_launched and instance.launched_at is None:
        raise exception.InstanceNotReady(instance_id=instance.uuid)
    if instance.shares and not change.with_shares:
        raise exception.ForbiddenWithShare()
    name = change.name.removesuffix("_hard")
    if change.vm_states and instance.vm_state not in change.vm_states:
        raise exception.InstanceInvalidState(action=name, instance_id=instance.uuid, attr="vm_state", state=instance.vm_state)
    if change.task_states and instance.task_state not in change.task_states:
        raise exception.InstanceInvalidState(action=name, instance_id=instance.uuid, attr="task_state",
                                             state=instance.task_state)
