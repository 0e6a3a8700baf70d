"""What a host may do with the files of a guest: one table by their owner and their state. The relation of the server to the
host decides the rest.
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from nova_lite.objects import states
from nova_lite.objects.instance import Instance
from nova_lite.virt.libvirt.guest_record import Record, State


class Whose(enum.Enum):
    """The owner, as seen by the host that reads the record."""

    MINE = "mine"
    NOBODYS = "nobody's"
    ANOTHERS = "another's"


@dataclass(frozen=True)
class Standing:
    """The relation of a server to a host. ``is_ours``: the server's record in the database names the host; ``has_guest``: the
    hypervisor has a guest of it."""

    is_ours: bool = True
    is_deleting: bool = False
    is_deleted: bool = False
    has_guest: bool = False

    @classmethod
    def of(cls, instance: Instance, host: str, has_guest: bool = False) -> Standing:
        """By the server's record."""
        return cls(instance.host == host, instance.task_state == states.DELETING, bool(instance.deleted), has_guest)

    @property
    def is_unwanted(self) -> bool:
        """The server will not be started again."""
        return self.is_deleted or self.is_deleting


Condition = Callable[[Standing], bool]


def _always(_server: Standing) -> bool:
    return True


def _never(_server: Standing) -> bool:
    return False


def _ours_or_deleted(server: Standing) -> bool:
    return server.is_ours or server.is_deleted


def _unwanted(server: Standing) -> bool:
    return server.is_unwanted


def _ours_or_guest(server: Standing) -> bool:
    return server.is_ours or server.has_guest


def _without_guest(server: Standing) -> bool:
    return not server.has_guest


@dataclass(frozen=True)
class Rule:
    """``removes``: the removal of the guest removes the files. ``adopts``: an evacuation to this host uses them as the server's
    disks on shared storage; else it makes new files or continues with its own. ``takes``: the start of the guest here makes
    this host the owner. ``replaces``: a live migration without shared storage may make its files in their place. ``is_left``:
    they belong to an operation that has not ended. ``drops``: they are removed once the server is at rest on another host, or
    deleted."""

    removes: Condition
    adopts: Condition = _always
    takes: bool = False
    replaces: bool = True
    is_left: bool = False
    drops: bool = False


_BROKEN_OFF = Rule(_always, adopts=_never, is_left=True, drops=True)
RULES: dict[tuple[Whose, State], Rule] = {
    (Whose.MINE, State.BUILDING): _BROKEN_OFF,
    (Whose.MINE, State.HERE): Rule(_always, adopts=_without_guest),
    (Whose.MINE, State.LEAVING): _BROKEN_OFF,
    (Whose.MINE, State.ASIDE): Rule(_always, adopts=_without_guest, is_left=True),
    (Whose.MINE, State.ARRIVING): _BROKEN_OFF,
    # when the evacuation fails after all, or another host has the server by now, they are all that there is of it
    (Whose.MINE, State.ADOPTED): Rule(_ours_or_deleted),
    (Whose.MINE, State.REMOVING): _BROKEN_OFF,
    **{(Whose.NOBODYS, state): Rule(_unwanted, takes=True, replaces=False) for state in State},
    (Whose.NOBODYS, State.UNKNOWN): Rule(_ours_or_guest),
    **{(Whose.ANOTHERS, state): Rule(_never, replaces=False) for state in State},
}


def whose(record: Record, host: str) -> Whose:
    """The owner of the record, as seen by ``host``."""
    return Whose.MINE if record.host == host else Whose.ANOTHERS if record.host else Whose.NOBODYS


def rule(record: Record, host: str) -> Rule:
    """The rule for ``host``."""
    return RULES[whose(record, host), record.state]
