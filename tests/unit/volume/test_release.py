"""Volumes that go with their server."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.objects.volume import Volume
from nova_lite.volume import release
from tests.support.clock import ManualClock


class Making:
    """A Volume service in which one volume is being made for ever."""

    def __init__(self, status: str) -> None:
        self.status, self.deletes = status, 0

    def get(self, _context: object, volume_id: str) -> Volume:
        return Volume(volume_id, self.status, 1)

    def delete(self, _context: object, volume_id: str) -> None:
        self.deletes += 1
        raise exception.InvalidVolume(reason=f"{volume_id} is {self.status}")


@pytest.mark.parametrize(("status", "seconds"), [("creating", release.CREATE_TIMEOUT), ("downloading", release.CREATE_TIMEOUT),
                                                 ("in-use", sum(release.DELETES.pauses))])
def test_a_volume_that_cannot_be_deleted_is_waited_for_once(status: str, seconds: float) -> None:
    clock, volumes = ManualClock(), Making(status)
    release._delete(volumes, "server", "volume", clock)     # type: ignore[arg-type]
    assert seconds <= clock.now <= seconds + 10
    assert volumes.deletes >= 2
