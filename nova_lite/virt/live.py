"""The part of a driver that moves a running guest to another host: ``driver.live``.

The order is: the source reports its facts, the destination checks them, makes a plan and prepares, the source copies, the
destination receives the guest, the source removes its part. Each step can be run twice. After a kill the hypervisors are asked
where the guest is; it never runs on both.
"""
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from nova_lite.objects.guest_moves import DiskOffer, Plan, Progress, SourceFacts
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt.driver import Checker, Fetcher, wanted

ABORT, FORCE_COMPLETE, GIVE_UP = "abort", "force_complete", "give_up"
# where the memory of a guest is. SPLIT: the guest runs at the destination, and the rest of its memory follows;
# BROKEN: the copy has stopped, and the guest is stopped until the source resumes the copy
WHOLE, SPLIT, BROKEN = "", "split", "broken"
REST_SECONDS = 7200.0           # how long the rest of a BROKEN guest is waited for; its user has no server meanwhile


Waits = Callable[[], bool]
"""Asks the destination whether it ``waits``; also True when nobody answers."""
Report = Callable[[Progress], str | None]
"""Called every second of a copy; answers ABORT or FORCE_COMPLETE once somebody wants that, GIVE_UP once nobody will have the
rest of a guest that is SPLIT: it is to be deleted, or the destination was declared down."""


class LiveMigrations(Protocol):
    """All methods raise VirtDriverError when the hypervisor fails."""

    def facts(self, instance: Instance) -> SourceFacts:
        """Asked of the source. Raises MigrationPreCheckError (400) for a guest that cannot leave as it is."""

    def forget(self, instance_uuid: str, token: str) -> None:
        """On the source: no host takes the guest. Remove the file with this token, unless there is a newer one."""

    def check(self, instance: Instance, there: SourceFacts, block: bool | None, over_commit: bool) -> Plan:
        """On the destination; changes nothing. ``block``: copy disks; None: where that is needed. ``over_commit``: count the
        present size of the disks, not the size to which they may grow. Raises MigrationPreCheckError and similar errors
        (400)."""

    def offer(self, instance: Instance, plan: Plan) -> DiskOffer | None:
        """The source serves the files that neither hypervisor copies; None: there are none."""

    def prepare(self, instance: Instance, network_info: list[VIF], plan: Plan, offer: DiskOffer | None,
                fetch_image: Fetcher, check: Checker = wanted) -> Plan:
        """On the destination: make the files, again when an earlier run has made some. Nics are plugged and volumes connected
        already. Returns the plan with its devices. Raises also as ``check``."""

    def has_begun(self, instance: Instance) -> bool:
        """On the source of a WHOLE guest: whether an earlier copy was begun, none is under way, and the guest is still here;
        then the destination has to prepare again."""

    def begin_anew(self, instance: Instance) -> None:
        """The source forgets the copy that ``has_begun``."""

    def slot(self, instance: Instance, ask: Callable[[], object]) -> AbstractContextManager[None]:
        """On the source: one guest at a time is copied (``virt/copy_slots.py``); within the block this guest has the slot.
        Calls ``ask`` every second until then, and raises its error."""

    def copy(self, instance: Instance, plan: Plan, report: Report, waits: Waits) -> str | None:
        """On the source: copy the guest, or wait for the end of the copy that is under way. Raises LiveMigrationAborted or
        VirtDriverError when the guest is still here. The error of ``report`` ends the wait, not the copy.

        A SPLIT guest cannot return. A copy that is BROKEN is resumed as long as the destination ``waits`` for the rest,
        ``report`` does not answer GIVE_UP, and REST_SECONDS have not passed. Then nothing runs here any more, and the result is
        why one half is lost; else None: the guest is at the destination.
        """

    def waits(self, instance: Instance) -> bool:
        """On the destination of a SPLIT guest: whether a part of the guest is here. A guest that is stopped for any reason
        counts; False for a guest that is gone, and for one that runs completely."""

    def post_copy(self, instance: Instance) -> str:
        """WHOLE, SPLIT or BROKEN; on both hosts. The copy is given up only when it is WHOLE."""

    def adopt(self, instance: Instance) -> None:
        """Before an evacuated guest is built here, and before what was built of it is removed: remove the owner of files that
        are here. They are on shared storage, and belong to no host during the evacuation, so that a host that gives up leaves
        them."""

    def adopted(self, instance: Instance) -> None:
        """The guest is here: so are its files, shared or not."""

    def has_come(self, instance: Instance) -> bool:
        """On the destination: the whole guest is here, running or paused by its user; not a guest that is still arriving."""

    def wire(self, instance: Instance, network_info: list[VIF]) -> None:
        """On the destination: make the nics of ``prepare`` anew, because nobody says that they are wired. The guest has not
        begun to come."""

    def wait(self, instance: Instance, pause: Callable[[], object]) -> bool:
        """On the destination, which has lost the source: wait until the incoming guest has arrived or is gone (``pause`` is
        called meanwhile); True when the guest is here."""

    def arrive(self, instance: Instance, network_info: list[VIF], plan: Plan) -> int:
        """The destination makes the guest its own; its power_state. Raises VirtDriverError when it is not here."""

    def leave(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """The source forgets the guest, which has arrived elsewhere."""

    def give_up(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """The destination undoes all; the guest is still at the source."""

    def stay(self, instance: Instance, plan: Plan) -> None:
        """On the source: keep the guest, which runs as before."""
