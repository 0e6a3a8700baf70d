"""A cloud of fake hosts whose conductor tells what it does."""
from __future__ import annotations

import pytest

from nova_lite.notifications import events
from tests.unit.compute.volumes.conftest import make_volume_cloud
from tests.unit.conductor.conftest import cloud, make_cloud

__all__ = ["cloud", "heard", "make_cloud", "make_volume_cloud"]


class Heard:
    """A listener that keeps the events."""

    def __init__(self):
        self.all = []

    def tell(self, journal):
        self.all += events.of(journal)

    def close(self):
        """Nothing waits."""

    def of(self, server, updates=False):
        """``create.start`` and so on of one server, in order."""
        return [e.text for e in self.all if e.instance.uuid == server and (updates or e.name != "update")]

    def updates(self, server):
        """(old state, old task_state, state, task_state)."""
        return [(e.before and e.before.vm_state, e.before and e.before.task_state, e.instance.vm_state, e.instance.task_state)
                for e in self.all if e.instance.uuid == server and e.name == "update"]


@pytest.fixture
def heard(cloud):
    """What the conductor of ``cloud`` tells; operations that the test begins are told as the API would tell them."""
    listener = Heard()
    cloud.conductor.db.listener = cloud.db.listener = listener
    return listener
