"""A host is silent when the guest of a build may run there already: no other host gives its volumes to a second guest."""
from __future__ import annotations

import threading

import pytest

from nova_lite.compute import volumes as volumes_on_host
from nova_lite.db import actions
from nova_lite.objects import action as objects
from nova_lite.objects import states
from tests.unit.compute.volumes.volume_cloud import DIED, existing, made_of


@pytest.fixture
def cloud(make_volume_cloud, tmp_path):
    return make_volume_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))


@pytest.fixture
def hold(monkeypatch):
    """The first host that has let a guest run for this verb waits for Cinder: (it does, go on)."""
    real, held, go_on, first = volumes_on_host.complete_all, threading.Event(), threading.Event(), threading.Lock()

    def hold(verb):
        def slow(work):
            if work.verb.name == verb and first.acquire(blocking=False):
                held.set()
                assert go_on.wait(60)
            real(work)
        monkeypatch.setattr(volumes_on_host, "complete_all", slow)
        return held, go_on
    yield hold
    go_on.set()


@pytest.fixture
def held(hold):
    return hold("build")


def _build(cloud, volume):
    return cloud.boot(made_of("image", cloud.image), existing(volume))


def _cut_off(cloud, server, held):
    """(its host, the attachments) of a server whose guest runs on a host that says nothing any more."""
    cloud.wait_for(held[0].is_set)
    host = cloud.get(server).host
    cloud.silence(host)
    cloud.take_over()
    return host, _attachments(cloud)


def _attachments(cloud):
    return sorted(a["id"] for a in cloud.attachments())


def _is_idle(cloud, host):
    cloud.wait_for(lambda: not cloud.hosts[host].leases.in_flight())


def _events(cloud, server):
    last = cloud.last_action(server)
    return cloud.admin.get(f"/servers/{server}/os-instance-actions/{last['request_id']}")["instanceAction"]["events"]


def test_it_is_waited_for_and_goes_on(cloud, held):
    volume = cloud.volume()
    server = _build(cloud, volume)
    host, made = _cut_off(cloud, server, held)
    [other] = {"h1", "h2"} - {host}
    cloud.take_over()
    found = cloud.get(server)
    assert (found.host, found.vm_state, found.task_state) == (host, states.BUILDING, states.SPAWNING)
    assert (_attachments(cloud), cloud.guests(host), cloud.guests(other)) == (made, {server: states.RUNNING}, {})
    assert [e["result"] for e in _events(cloud, server) if e["event"] == "compute_build_and_run_instance"] == ["Error"]
    with cloud.db.read() as conn:
        [told] = [e["details"] for e in actions.events_of(conn, cloud.last_action(server)["row"].id) if e["details"]]
    assert f"Compute host {host} stopped reporting" in told
    assert "waiting for the host" in told
    held[1].set()
    _is_idle(cloud, host)
    cloud.report(host)
    found = cloud.wait(server, states.ACTIVE)
    assert (found.host, cloud.guests(host), cloud.guests(other)) == (host, {server: states.RUNNING}, {})
    assert sorted(d.attachment_id for d in found.volumes) == _attachments(cloud) == made


def test_one_that_was_declared_down_is_not(cloud, held):
    server = _build(cloud, cloud.volume())
    host, made = _cut_off(cloud, server, held)
    [other] = {"h1", "h2"} - {host}
    cloud.force_down(host)
    cloud.take_over()
    found = cloud.wait(server, states.ACTIVE)
    assert (found.host, cloud.guests(other)) == (other, {server: states.RUNNING})
    assert not set(_attachments(cloud)) & set(made)
    held[1].set()
    _is_idle(cloud, host)
    assert cloud.guests(host) == {}


def test_a_delete_is_done_meanwhile(cloud, held):
    volume = cloud.volume()
    server = _build(cloud, volume)
    host, _ = _cut_off(cloud, server, held)
    cloud.member.delete(f"/servers/{server}")

    def gone():     # the sweep finds the delete once the conductor has given it to the host
        cloud.take_over()
        return cloud.get(server).deleted
    cloud.wait_for(gone)
    cloud.actions_end(server)
    assert cloud.status(volume) == "available"
    held[1].set()
    _is_idle(cloud, host)
    assert cloud.guests(host) == {}


@pytest.mark.parametrize("dead", [True, False])
def test_the_last_attempt_is_waited_for_as_well(make_volume_cloud, held, dead):
    """Given up, the server would have no host, and its volumes be given back under the guest."""
    cloud = make_volume_cloud("h1", conductor__max_attempts=1)
    server = _build(cloud, cloud.volume())
    cloud.wait_for(held[0].is_set)
    if dead:
        cloud.silence("h1")
    cloud.take_over()
    assert (cloud.get(server).vm_state, cloud.get(server).host) == (states.BUILDING, "h1")
    held[1].set()
    _is_idle(cloud, "h1")
    cloud.report("h1")
    cloud.wait(server, states.ACTIVE)
    assert cloud.guests("h1") == {server: states.RUNNING}


def test_a_daemon_that_died_too_often_gives_it_up_when_it_is_back(make_volume_cloud, tmp_path):
    """It removes the guest first."""
    cloud = make_volume_cloud("h1", conductor__max_attempts=1, fake__state_file=str(tmp_path / "guests"))
    cloud.drivers["h1"].fail("spawn", DIED, "after")
    server = _build(cloud, cloud.volume())
    cloud.wait_for(lambda: "spawn" in cloud.drivers["h1"].calls and not cloud.hosts["h1"].leases.in_flight())
    cloud.silence("h1")
    cloud.take_over()
    assert (cloud.get(server).vm_state, cloud.guests("h1")) == (states.BUILDING, {server: states.RUNNING})
    cloud.end_host("h1")
    cloud.add_host("h1")
    assert "was given up" in cloud.wait(server, states.ERROR).fault["message"]
    assert cloud.get(server).host is None
    cloud.wait_for(lambda: cloud.guests("h1") == {})


def test_without_volumes_it_is_built_elsewhere(cloud, held):
    server = cloud.boot(imageRef=cloud.image)
    host, _ = _cut_off(cloud, server, held)
    found = cloud.wait(server, states.ACTIVE)
    assert found.host != host
    held[1].set()
    _is_idle(cloud, host)
    assert cloud.guests(host) == {}


@pytest.mark.parametrize("volumes", [True, False])
def test_an_evacuation_is_waited_for_and_goes_on(cloud, hold, volumes):
    """Without volumes as well: its files may be on storage that all hosts have."""
    server = cloud.running(*([made_of("image", cloud.image)] if volumes else []))
    old = cloud.get(server).host
    [new] = {"h1", "h2"} - {old}
    cloud.end_host(old)
    cloud.silence(old)
    held, go_on = hold("evacuate")
    action = cloud.operate(server, "evacuate", {"host": None, "force": False, "stopped": False})
    cloud.wait_for(held.is_set)
    made = _attachments(cloud)
    cloud.silence(new)
    cloud.take_over()
    assert (cloud.action(action).host, cloud.action(action).stage, cloud.guests(new)) == (
        new, objects.COMPUTE, {server: states.RUNNING})
    assert _attachments(cloud) == made
    go_on.set()
    _is_idle(cloud, new)
    cloud.report(new)
    found = cloud.wait(server, states.ACTIVE)
    assert (found.host, cloud.guests(new)) == (new, {server: states.RUNNING})
    assert [d.attachment_id for d in found.volumes] == _attachments(cloud)
