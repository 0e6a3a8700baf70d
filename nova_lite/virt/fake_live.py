"""Live migration of fake guests: ten steps of ``[fake] delay`` seconds, with numbers that look like those of a copy."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from nova_lite import exception
from nova_lite.objects.guest_moves import DiskOffer, Plan, Progress, SourceFacts
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.objects.states import NOSTATE, POWER_PAUSED, RUNNING
from nova_lite.units import GiB, MiB
from nova_lite.virt.copy_slots import CopySlots
from nova_lite.virt.driver import Checker, Fetcher, wanted
from nova_lite.virt.live import ABORT, FORCE_COMPLETE, WHOLE, Report, Waits

if TYPE_CHECKING:
    from nova_lite.virt.fake import FakeDriver

STEPS = 10
MOVED_TO = "_moved_to"      # after the uuid: a copy of the guest was begun, and has not ended


class FakeLiveMigrations:
    """See :class:`nova_lite.virt.live.LiveMigrations`. Fake hosts share no storage."""

    def __init__(self, driver: FakeDriver, act: Callable[[str, Instance], None],
                 keep: Callable[[str, dict[str, Any] | None], None]) -> None:
        self._driver, self._act, self._keep = driver, act, keep
        self._copies = CopySlots()

    def facts(self, instance: Instance) -> SourceFacts:
        """See LiveMigrations."""
        inventory = self._driver.inventory()
        disks = [] if instance.is_volume_backed else [
            {"name": f"{instance.uuid}/disk", "size": instance.root_gb * GiB, "used": MiB, "format": "qcow2"}]
        return SourceFacts(inventory.hypervisor_type, inventory.hypervisor_version,
                           self._driver.power_state(instance) or NOSTATE, disks=disks)

    def forget(self, instance_uuid: str, token: str) -> None:
        """There is no file."""

    def check(self, instance: Instance, there: SourceFacts, block: bool | None, over_commit: bool) -> Plan:
        """See LiveMigrations."""
        self._act("check_live_migration", instance)
        if there.disks and block is False:
            raise exception.InvalidSharedStorage(path="/", reason="fake hosts share nothing; use block migration")
        needed, free = sum(d["size"] for d in there.disks), (self._driver.inventory().free_disk_gb or 0) * GiB
        if needed > free:
            raise exception.MigrationPreCheckError(reason=f"its disks need {needed} bytes, and the host has {free}")
        return Plan(block=bool(there.disks), address=self._driver.conf.my_ip, power_state=there.power_state, disks=there.disks)

    def offer(self, instance: Instance, plan: Plan) -> DiskOffer | None:
        """Nothing."""
        return None

    def prepare(self, instance: Instance, network_info: list[VIF], plan: Plan, offer: DiskOffer | None,
                fetch_image: Fetcher, check: Checker = wanted) -> Plan:
        """Nothing has to be made, and what an earlier run has left goes."""
        self._act("pre_live_migration", instance)
        check()
        self._keep(instance.uuid, None)
        return plan

    def wire(self, instance: Instance, network_info: list[VIF]) -> None:
        """There are no nics."""

    def has_begun(self, instance: Instance) -> bool:
        """The mark of a copy outlives the daemon like the guest, which ``copy`` takes away at its end."""
        return self._driver.knows(instance.uuid + MOVED_TO) and self._driver.knows(instance.uuid)

    def begin_anew(self, instance: Instance) -> None:
        """The mark goes."""
        self._keep(instance.uuid + MOVED_TO, None)

    def slot(self, instance: Instance, ask: Callable[[], object]) -> AbstractContextManager[None]:
        """See LiveMigrations. No copy outlives its daemon."""
        return self._copies.slot(ask, at_once=False)

    def copy(self, instance: Instance, plan: Plan, report: Report, waits: Waits) -> str | None:
        """Slow if ``[fake] delay`` is set; a forced copy is fast."""
        if self._driver.power_state(instance) is None:
            return None
        self._keep(instance.uuid + MOVED_TO, {})
        memory, disk = instance.memory_mb * MiB, sum(d["size"] for d in plan.disks)
        wanted = None
        for step in range(STEPS):
            self._act("live_migration" if wanted != FORCE_COMPLETE else "", instance)
            done = [memory * (step + 1) // STEPS, disk * (step + 1) // STEPS]
            wanted = report(Progress(memory, done[0], memory - done[0], disk, done[1], disk - done[1])) or wanted
            if wanted == ABORT:
                raise exception.LiveMigrationAborted(instance_id=instance.uuid)
        self._keep(instance.uuid, None)
        return None

    def post_copy(self, instance: Instance) -> str:
        """Always WHOLE: the guest arrives at once."""
        return WHOLE

    def waits(self, instance: Instance) -> bool:
        """Always False: the guest arrives at once."""
        return False

    def adopt(self, instance: Instance) -> None:
        """There are no files."""

    def adopted(self, instance: Instance) -> None:
        """There are no files."""

    def has_come(self, instance: Instance) -> bool:
        """The guest arrives only when its source has finished."""
        return self._driver.power_state(instance) is not None

    def wait(self, instance: Instance, pause: Callable[[], object]) -> bool:
        """The guest arrives only when its source has finished."""
        return self._driver.power_state(instance) is not None

    def arrive(self, instance: Instance, network_info: list[VIF], plan: Plan) -> int:
        """The guest gets the state that it had at the source."""
        state = POWER_PAUSED if plan.power_state == POWER_PAUSED else RUNNING
        self._act("post_live_migration", instance)
        self._keep(instance.uuid, {"power_state": state, "name": instance.display_name})
        return state

    def leave(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """The guest was forgotten by the copy."""
        self._keep(instance.uuid + MOVED_TO, None)

    def give_up(self, instance: Instance, network_info: list[VIF], plan: Plan) -> None:
        """What came goes."""
        self._keep(instance.uuid, None)

    def stay(self, instance: Instance, plan: Plan) -> None:
        """The guest has never been away."""
        self._keep(instance.uuid + MOVED_TO, None)

