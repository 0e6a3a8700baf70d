"""Hosts that die, or are cut off, while a server goes to its shelf or comes back: one whole copy stays, and one guest runs."""
import dataclasses
import threading

import pytest

from nova_lite import exception
from nova_lite.compute import volumes as volumes_on_host
from nova_lite.image import base as image_base
from nova_lite.volume import base as volume_base

from .test_shelve import OWNER, begin, offloaded, room, shelve, state, wake


@pytest.fixture
def images(cloud):
    return image_base.load(cloud.conf)


def test_a_host_that_dies_while_a_shelve_goes_on_to_offload_leaves_it_on_its_shelf(cloud, images):
    server = cloud.active()
    host = cloud.get(server).host
    action_id, image_id = shelve(cloud, images, server, start=False)
    assert cloud.claim(action_id, host, "dead-worker")
    cloud.set(server, vm_state="shelved", task_state="shelving_offloading", power_state=4)
    images.upload(OWNER, image_id, [b"all"])
    cloud.hosts[host].host.driver._set(server, None)        # its disk, too, is gone
    cloud.silence(host)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, "error")
    assert (state(cloud, server), cloud.get(server).host) == (("shelved", None, 4), host)
    cloud.report(host)
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve")), "done")
    assert (state(cloud, server), cloud.guests(host)) == (("active", None, 1), {server: 1})


def test_an_offload_that_is_given_up_leaves_it_on_its_shelf(make_cloud):
    cloud = make_cloud("h1", compute__shelved_offload_time=-1, conductor__max_attempts=1)
    server = cloud.active()
    cloud.wait_action(shelve(cloud, image_base.load(cloud.conf), server)[0], "done")
    offload = begin(cloud, server, "shelveOffload")
    assert cloud.claim(offload, "h1", "dead-worker")
    cloud.expire(offload)
    cloud.sweep()
    cloud.wait_action(offload, "error")
    assert state(cloud, server) == ("shelved", None, 4)


def test_a_host_that_dies_over_an_unshelve_in_its_place_has_it_off_when_it_is_back(make_cloud):
    cloud = make_cloud("h1", compute__shelved_offload_time=-1)
    server = cloud.active()
    cloud.wait_action(shelve(cloud, image_base.load(cloud.conf), server)[0], "done")
    unshelve = begin(cloud, server, "unshelve")
    cloud.hosts["h1"]._ready.clear()        # it hears nothing for now
    wake(cloud, unshelve)
    cloud.wait_for(lambda: cloud.action(unshelve).host == "h1")
    assert cloud.claim(unshelve, "h1", "dead-worker")
    cloud.hosts["h1"].host.driver.power_on(cloud.get(server), [])
    cloud.silence("h1")
    cloud.expire(unshelve)
    cloud.sweep()
    cloud.wait_action(unshelve, "error")
    assert state(cloud, server) == ("shelved", None, 4)
    cloud.hosts["h1"]._ready.set()
    cloud.sync("h1")
    cloud.wait_for(lambda: cloud.guests("h1") == {server: 4})


@pytest.mark.parametrize("on_volume", [True, False])
def test_an_unshelve_whose_host_is_cut_off_when_the_guest_runs_stays_there(cloud, images, monkeypatch, on_volume):
    """The Volume service is slow to complete the attachment. Back on its shelf the server could be brought to another host, and
    both guests would write to the volume."""
    volumes = volume_base.load(cloud.conf)
    device = {"id": "d", "source_type": "volume", "destination_type": "volume", "volume_id": volumes.create(OWNER, 1).id,
              "boot_index": 0 if on_volume else None}
    server, _ = offloaded(cloud, images, block_devices=[device])
    real, held, go_on = volumes_on_host.complete_all, threading.Event(), threading.Event()

    def slow(work):
        held.set()
        assert go_on.wait(60)
        real(work)
    monkeypatch.setattr(volumes_on_host, "complete_all", slow)
    action_id = wake(cloud, begin(cloud, server, "unshelve", destination="h2"))
    cloud.wait_for(held.is_set)
    cloud.silence("h2")
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, "error")
    assert (state(cloud, server), cloud.get(server).host) == (("active", None, 1), "h2")
    go_on.set()
    cloud.wait_for(lambda: not cloud.hosts["h2"].leases.in_flight())
    cloud.report("h2")
    cloud.sync("h2")
    cloud.wait_for(lambda: not cloud.hosts["h2"]._queues.is_busy(server))
    assert (cloud.guests("h2"), len(room(cloud, server)), cloud.get(server).system_metadata) == ({server: 1}, 1, {"other": "x"})


def test_an_unshelve_that_fails_when_the_guest_runs_puts_it_back(cloud, images, monkeypatch):
    server, _ = offloaded(cloud, images)

    def fail(_work):
        raise exception.ServiceUnavailable(what="Cinder", reason="it does not answer")
    with monkeypatch.context() as patched:
        patched.setattr(volumes_on_host, "complete_all", fail)
        cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve", destination="h2")), "error")
    assert (state(cloud, server), cloud.get(server).host, cloud.guests("h2")) == (("shelved_offloaded", None, 4), None, {})
    # and what dies before the guest's next beginning does so, too
    action_id = begin(cloud, server, "unshelve", destination="h2")
    monkeypatch.setattr(cloud.hosts["h2"], "_take_up", lambda ids: None)
    wake(cloud, action_id)
    cloud.wait_for(lambda: cloud.get(server).host == "h2")
    cloud.silence("h2")
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, "error")
    assert (state(cloud, server)[:2], cloud.get(server).host) == (("shelved_offloaded", None), None)


@pytest.mark.parametrize("fails_too", ["attachments", "disconnect_volume", "destroy"])
def test_an_unshelve_that_fails_while_the_volume_service_is_away_leaves_no_connection_of_its_host(cloud, images, monkeypatch,
                                                                                                fails_too):
    """The Volume service refuses a second host's connector for the first one's attachment."""
    volumes = volume_base.load(cloud.conf)
    made = [volumes.create(OWNER, 1).id for _ in range(2)]
    devices = [{"id": f"d{n}", "source_type": "volume", "destination_type": "volume", "source_id": one, "volume_id": one,
                "boot_index": None if n else 0} for n, one in enumerate(made)]
    server, _ = offloaded(cloud, images, block_devices=devices)
    connected: dict[str, str] = {}
    for name, manager in cloud.hosts.items():
        def connect(context, attachment_id, connector, _name=name, _real=manager.host.volume.connect):
            assert connected.setdefault(attachment_id, _name) == _name, "400: duplicate connectors"
            return dataclasses.replace(_real(context, attachment_id, connector), connection_info={"data": {"of": _name}})
        monkeypatch.setattr(manager.host.volume, "connect", connect)
    host = cloud.hosts["h1"].host
    gone, real = [], host.driver.disconnect_volume
    monkeypatch.setattr(host.driver, "disconnect_volume", lambda *a: (gone.append(a[1].volume_id), real(*a)))

    def is_away(*_arguments):
        raise exception.ServiceUnavailable(what="Cinder", reason="it does not answer")

    def fails(*_arguments):
        patched.setattr(*((host.volume, "attachments", is_away) if fails_too == "attachments" else
                          (host.driver, fails_too, is_away)))
        is_away()
    with monkeypatch.context() as patched:
        patched.setattr(host.driver, "spawn", fails)
        cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve", destination="h1")), "error")
    assert len(connected) == 2
    assert fails_too != "attachments" or sorted(gone) == sorted(made)
    assert (state(cloud, server)[0], cloud.get(server).host) == ("shelved_offloaded", None)
    assert not any(d.connection_info or d.attached for d in cloud.get(server).volumes)
    cloud.wait_action(wake(cloud, begin(cloud, server, "unshelve", destination="h2")), "done")
    assert all(d.connection_info["data"]["of"] == "h2" and d.attached for d in cloud.get(server).volumes)
    assert len(volumes.attachments(OWNER, server)) == 2
