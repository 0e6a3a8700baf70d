"""When a copy has ended, and how long it may take."""
import types

import pytest

import nova_lite.conf
from nova_lite.exception import VirtDriverError
from nova_lite.units import GiB
from nova_lite.virt.libvirt.connection import ConnectionLost
from nova_lite.virt.libvirt.live_migration import LiveMigrations, is_overdue
from tests.unit.virt.libvirt.builders import instance


@pytest.mark.parametrize(("job", "overdue"), [
    ({}, False),
    ({"time_elapsed": 1_599_000, "memory_total": GiB // 8}, False),
    ({"time_elapsed": 1_601_000, "memory_total": GiB // 8}, True),
    ({"time_elapsed": 7_999_000, "memory_total": 4 * GiB, "disk_total": 6 * GiB}, False),
    ({"time_elapsed": 8_001_000, "memory_total": 4 * GiB, "disk_total": 6 * GiB}, True)])
def test_a_copy_has_800_seconds_for_each_gib_and_for_two_at_least(job, overdue):
    assert is_overdue(job) == overdue


@pytest.mark.parametrize(("error", "looks"), [
    (ConnectionLost(uri="qemu:///system", reason="it was closed"), 3), (VirtDriverError(what="libvirt", reason="no"), 1),
    (None, 1)])
def test_a_copy_goes_on_though_the_connection_was_lost_on_which_it_was_asked_for(tmp_path, monkeypatch, error, looks):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path))
    live = LiveMigrations(conf, "one", None, None, None, None, None)
    jobs, looked = [{"type": 2}, {"type": 2}, {}], []

    def job(_guest):
        looked.append(jobs[len(looked)])
        return looked[-1]
    monkeypatch.setattr(live, "_job", job)
    live._watch(None, instance(), types.SimpleNamespace(ended=True, error=error), lambda _progress: None)
    assert len(looked) == looks
