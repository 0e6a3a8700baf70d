"""How long a copy may take."""
import pytest

from nova_lite.units import GiB
from nova_lite.virt.libvirt.live_migration import is_overdue


@pytest.mark.parametrize(("job", "overdue"), [
    ({}, False),
    ({"time_elapsed": 1_599_000, "memory_total": GiB // 8}, False),
    ({"time_elapsed": 1_601_000, "memory_total": GiB // 8}, True),
    ({"time_elapsed": 7_999_000, "memory_total": 4 * GiB, "disk_total": 6 * GiB}, False),
    ({"time_elapsed": 8_001_000, "memory_total": 4 * GiB, "disk_total": 6 * GiB}, True)])
def test_a_copy_has_800_seconds_for_each_gib_and_for_two_at_least(job, overdue):
    assert is_overdue(job) == overdue
