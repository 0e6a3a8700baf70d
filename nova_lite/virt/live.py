"""What a hypervisor does when a running guest moves to another host: the part of a driver that is ``driver.live``.

The order is: the source tells its facts, the destination checks them and makes a plan, prepares, the source copies, the
destination lets the guest arrive, the source lets go. Each step can be run twice. Who was killed in between asks the
hypervisors where the guest is: there is never a moment at which it runs on both.
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
# where the memory of a guest is. SPLIT: it went on at the destination before all of it was there, and the rest follows;
# BROKEN: that has stopped, and the guest stands still until the source takes it up again
WHOLE, SPLIT, BROKEN = "", "split", "broken"
REST_SECONDS = 7200.0           # how long the rest of a BROKEN guest is waited for; its user has no server meanwhile


Waits = Callable[[], bool]
"""Asks the destination whether it ``waits``; also True when nobody answers."""
Report = Callable[[Progress], str | None]
"""Called every second of a copy; answers ABORT or FORCE_COMPLETE once somebody wants that, GIVE_UP once nobody will have the
rest of a guest that is SPLIT: it is to be deleted, or the destination was declared down."""


class LiveMigrations(Protocol):
    """All raise VirtDriverError when the hypervisor does not do what it is told."""

    def facts(self, instance: Instance) -> SourceFacts:
        """Asked of the source. Raises MigrationPreCheckError (400) for a guest that cannot leave as it is."""

    def forget(self, instance_uuid: str, token: str) -> None:
        """The source hears that no host takes the guest: the file with this token goes, unless there is a newer one."""

    def check(self, instance: Instance, there: SourceFacts, block: bool | None, over_commit: bool) -> Plan:
        """Asked of the destination; it changes nothing. ``block``: copy disks, None: where that is needed. ``over_commit``:
        count what the disks take up now, not what they may grow to. Raises MigrationPreCheckError and its kin (400)."""

    def offer(self, instance: Instance, plan: Plan) -> DiskOffer | None:
        """The source serves the files that neither hypervisor copies; None: there are none."""

    def prepare(self, instance: Instance, network_info: list[VIF], plan: Plan, offer: DiskOffer | None,
                fetch_image: Fetcher, check: Checker = wanted) -> Plan:
        """The destination makes the files, anew when an earlier run has made some; nics are plugged and volumes connected.
        Answers the plan with its devices. Raises what ``check`` raises, too."""

    def has_begun(self, instance: Instance) -> bool:
        """Asked of the source of a WHOLE guest: an earlier copy was begun, none is under way, and the guest is still here; the
        destination has to prepare anew."""

    def begin_anew(self, instance: Instance) -> None:
        """The source forgets the copy that ``has_begun``."""

    def slot(self, instance: Instance, ask: Callable[[], object]) -> AbstractContextManager[None]:
        """The source lets one guest leave at a time (``virt/copy_slots.py``): in the block this guest has the slot.
        Calls ``ask`` every second until then, and raises what that raises."""

    def copy(self, instance: Instance, plan: Plan, report: Report, waits: Waits) -> str | None:
        """The source brings the guest over, or waits until the copy that is under way ends. Raises LiveMigrationAborted or
        VirtDriverError when the guest is still here; what ``report`` raises ends the waiting, not the copy. A guest that is
        SPLIT does not come back: a copy that is BROKEN is taken up as long as the destination ``waits`` for the rest, nobody
        says GIVE_UP, and REST_SECONDS have not passed. Then nothing runs here any more, and the answer is why one half is lost;
        else None: the guest has gone over."""

    def waits(self, instance: Instance) -> bool:
        """Asked of the destination of a SPLIT guest: there is a guest here, and not all of it. What stands still for whatever
        reason counts as such; False for one that is gone, and for one that runs in one piece."""

    def post_copy(self, instance: Instance) -> str:
        """WHOLE, SPLIT or BROKEN; asked of both hosts. As long as it is not WHOLE nobody gives the copy up."""

    def adopt(self, instance: Instance) -> None:
        """Before an evacuated guest is built here, and before what was built of it is removed: files of it that are here are
        those of shared storage, and no host's as long as it is under way, so that whoever gives up leaves them."""

    def adopted(self, instance: Instance) -> None:
        """The guest is here: so are its files, shared or not."""

    def has_come(self, instance: Instance) -> bool:
        """Asked of the destination: the whole guest is here, running or paused by its user; not one that is on its way."""

    def wire(self, instance: Instance, network_info: list[VIF]) -> None:
        """The destination makes the nics anew that ``prepare`` has made: nobody says that they are wired. The guest has not
        begun to come."""

    def wait(self, instance: Instance, pause: Callable[[], object]) -> bool:
        """The destination has lost the source: wait until what comes in has come or is gone (calling ``pause`` meanwhile);
        True when the guest is here."""

    def arrive(self, instance: Instance, network_info: list[VIF], plan: Plan) -> int:
        """The destination makes the guest its own; its power_state. Raises VirtDriverError when it is not here."""

    def leave(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """The source forgets the guest, which has arrived elsewhere."""

    def give_up(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """The destination undoes all; the guest is still at the source."""

    def stay(self, instance: Instance, plan: Plan) -> None:
        """The source keeps the guest, which goes on as before."""
