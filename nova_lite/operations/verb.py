"""The columns of the table of verbs: everything that the control plane has to know of a verb."""
from __future__ import annotations

import enum
from dataclasses import dataclass

from nova_lite import exception
from nova_lite.objects import migration, states
from nova_lite.objects.instance import Instance
from nova_lite.operations.steps import Step


class Begins(enum.Enum):
    """Who takes the action up first."""

    CONDUCTOR = "conductor"         # it asks the scheduler for a host
    HOST = "host"                   # the host of the server
    SOURCE = "source"               # the host that the server has left
    DESTINATION = "destination"     # the host that the server has gone to


class IfHostDies(enum.Enum):
    """What happens to an action whose host is dead."""

    WAIT = "wait"                   # it goes on when the host is back; what keeps the state follows its server to a new host
    PARTNER = "partner"             # the other host of the move goes on
    ANOTHER = "another"             # a conductor chooses another host, unless the guest may run at the dead one
    DONE = "done"                   # a conductor does what is left to do; the host removes its part when it is back
    SHELF = "shelf"                 # the server is on its shelf as before, or where its guest may run
    FAIL = "fail"                   # the server ends as ``fails_in`` says
    FAIL_IF_BEGUN = "fail if begun"     # as before; but a server on which nobody had begun stays as it was


class WithoutHost(enum.Enum):
    """What a conductor does with an action that does not begin there, and whose server has no host."""

    REFUSE = "refuse"               # the action fails
    DELETE = "delete"               # it gives back what neighbours have of the server, and deletes it
    DETACH = "detach"               # it gives the volume back
    UNDO = "undo"                   # it gives the volume back, and the action fails: its request died in the middle


class Guest(enum.Enum):
    """Where the guest may be while the verb is under way."""

    ONE = "one"                     # at one host
    EITHER = "either"               # at the source or at the destination
    RETURNS = "returns"             # at the destination; a source that comes back may bring an older guest


class Runs(enum.Enum):
    """Among which threads of a host the verb runs."""

    SHORTLY = "shortly"
    LONG = "long"                   # it copies disks or memory, or waits for another service or host: it may last for hours
    BUILD = "build"                 # as many at once as ``[compute] max_concurrent_builds`` says


class Debt(enum.Enum):
    """What a neighbour may still hold of an action that has failed."""

    IMAGE = "image"                 # an image that never gets its data
    SNAPSHOTS = "snapshots"         # snapshots of volumes that no image names
    ANSWER = "answer"               # the Volume service waits for an answer


class MoveKind(enum.Enum):
    """The kinds of moves of a guest."""

    COLD = "cold"
    SETTLES = "settles"             # the end of a cold move: the user has confirmed or reverted it
    LIVE = "live"
    EVACUATION = "evacuation"


@dataclass(frozen=True)
class Move:
    """What a verb means for its row of ``migrations``."""

    kind: MoveKind
    statuses: tuple[str, ...]               # on the way, in order: a host writes all but the first
    succeeds_as: str
    fails_as: str = migration.ERROR         # after a host has worked on it
    type: str | None = None                 # migration_type; None: the row is an older verb's
    to_source: bool = False                 # the guest goes to the source
    is_final: bool = False                  # a success cannot be undone, whatever else has been begun with the server


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a change of a server needs to be allowed.

    ``name`` is what errors call it ("Cannot 'reboot' instance ..."), ``action`` the name in os-instance-actions. ``vm_states``
    and ``task_states`` empty: any.
    """

    name: str
    action: str
    vm_states: tuple[str, ...]
    task_states: tuple[str | None, ...] = (None,)
    respects_lock: bool = True
    must_have_launched: bool = True
    with_shares: bool = True                # False: not with a server that has shares of files, as in Nova


@dataclass(frozen=True, kw_only=True)
class Verb(Change):
    """One row of the table.

    ``request`` is the route that asks for it: method and path, or the name of an action of a server.
    ``event`` is what os-instance-actions calls the work of a host, behind ``compute_``. ``working`` are the task_states in
    order; the request sets the first. A success ends in ``ends_in`` and ``power_state`` (None: where the server was). A failure
    ends in ``fails_in`` (None: where the server was), unless the host knows better. ``notification`` is its name in
    notifications.
    """

    request: str
    event: str
    waiting_event: str | None = None        # while it waits for a dead host, where that has another name
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
    is_repeatable: bool = False             # a second request for it, while it waits, is the first one
    is_given_up: bool = True                # after ``[conductor] max_attempts`` workers
    steps: tuple[Step, ...] = ()            # of what goes from host to host
    new_server: bool = False                # there is no guest before it: a server on which it failed has no host
    changes_flavor: bool = False
    takes_guest_away: bool = False          # the guest leaves its host, or its memory goes to a disk
    stops_guest: bool = False               # the processors of the guest stand still
    freezes_guest: bool = False             # the file systems of the guest may be frozen
    ends_waiting_move: bool = False         # its success confirms a cold move that waits for its user
    forgets_files: bool = False             # nobody needs the user's files (personality) after it has failed
    writes: frozenset[str] = frozenset()    # the columns of the server that its host may write, besides its states
    notes: frozenset[str] = frozenset()         # the arguments that its host may add to the action on the way
    hands_over: frozenset[str] = frozenset()    # and those for the other host of its move
    exchanges_volume: bool = False          # its host may say that a block device is another volume
    owes: Debt | None = None
    notification: str | None = None
    notification_at_conductor: str | None = None    # when a conductor takes it up, where that has another name

    @property
    def task_state(self) -> str | None:
        """What the request sets."""
        return self.working[0] if self.working else None

    @property
    def is_delete(self) -> bool:
        """True when its success deletes the server for good."""
        return self.ends_in == states.DELETED

    @property
    def keeps_state(self) -> bool:
        """True when the server is in the same state before, meanwhile and after, however it ends."""
        return self.ends_in is None and not self.working

    @property
    def follows_guest(self) -> bool:
        """True for what keeps the state and may come at any time: it keeps nobody from anything, waits while the guest is on
        its way (``BETWEEN_HOSTS``), and is done at the host to which the guest has come."""
        return self.keeps_state and not self.task_states

    @property
    def is_done_at_guest(self) -> bool:
        """Whether it belongs to the host that its server has, and to no other. A delete takes what is left, wherever it is."""
        return self.begins is Begins.HOST and not self.is_delete

    @property
    def is_cold_move(self) -> bool:
        """True for a resize and a cold migration; what ends them is another verb."""
        return self.move is not None and self.move.kind is MoveKind.COLD

    @property
    def settles_move(self) -> bool:
        """True for what ends a cold move by its user's word."""
        return self.move is not None and self.move.kind is MoveKind.SETTLES

    @property
    def survives_reset(self) -> bool:
        """Whether os-resetState leaves it to its hosts, however far it is."""
        return bool(self.steps) and all(step.survives_reset for step in self.steps)

    def waits_for(self, other: Verb) -> bool:
        """Whether it cannot begin as long as ``other`` is under way, although the server's state says nothing of that."""
        if self.stops_guest:
            return other.freezes_guest
        return self.takes_guest_away and other.keeps_state and not other.follows_guest


def check(change: Change, instance: Instance, may_override_lock: bool = False) -> None:
    """Raise InstanceIsLocked, InstanceNotReady or InstanceInvalidState (all 409) when a change is not allowed now."""
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
