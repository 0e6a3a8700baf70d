"""Rescues on a host."""
import dataclasses

import pytest

from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions
from nova_lite.image import base as image_base
from tests.unit.compute.volumes.volume_cloud import DIED, Meddling

OWNER = RequestContext(user_id="u", project_id="p", overwrite=False)


@pytest.fixture
def image(cloud):
    images = image_base.load(cloud.conf)
    return images.upload(OWNER, images.create(OWNER, {"name": "rescue"}).id, [b"x"])


def rescue(cloud, server, image, wake=True):
    action_id, host = cloud.db.write(api._begin, OWNER, server, "rescue", {"image": image.to_primitive()},
                                     cloud.conf.conductor.lease_seconds)
    if wake:
        cloud.conductor.compute.wake(admin_context(), host, [action_id])
    return action_id


def state(cloud, server):
    found = cloud.get(server)
    return found.vm_state, found.task_state, found.power_state


@pytest.mark.parametrize("before", ["active", "stopped", "error"])
def test_there_and_back(cloud, image, before):
    server = cloud.active()
    if before == "stopped":
        cloud.operate(server, "stop")
        cloud.wait(server, "stopped")
    cloud.set(server, vm_state=before)
    cloud.wait_action(rescue(cloud, server, image), "done")
    assert state(cloud, server) == ("rescued", None, 1)
    cloud.sync(cloud.get(server).host)
    assert state(cloud, server) == ("rescued", None, 1)
    cloud.wait_action(cloud.operate(server, "unrescue"), "done")
    assert state(cloud, server) == ("active", None, 1)


@pytest.mark.parametrize("verb", ["rescue", "unrescue"])
def test_a_failure_is_an_error_that_says_why(cloud, image, verb):
    server = cloud.active()
    if verb == "unrescue":
        cloud.wait_action(rescue(cloud, server, image), "done")
    cloud.fail(verb)
    cloud.wait_action(rescue(cloud, server, image) if verb == "rescue" else cloud.operate(server, verb), "error")
    assert state(cloud, server)[:2] == ("error", None)
    assert f"[fake] fail = {verb}" in cloud.get(server).fault["message"]


def test_a_rescue_without_its_image_leaves_the_guest_alone(make_cloud):
    cloud = make_cloud("h1", fake__fetch_images=True)
    images = image_base.load(cloud.conf)
    made = images.upload(OWNER, images.create(OWNER, {"name": "rescue"}).id, [b"x"])
    server = cloud.active()
    images.delete(OWNER, made.id)
    cloud.wait_action(rescue(cloud, server, made), "error")
    assert "is not there any more" in cloud.get(server).fault["message"]
    assert cloud.guests("h1") == {server: 1}


@pytest.mark.parametrize("verb", ["rescue", "unrescue"])
def test_a_worker_that_died_is_followed_by_another(cloud, image, verb):
    server = cloud.active()
    if verb == "unrescue":
        cloud.wait_action(rescue(cloud, server, image), "done")
    action_id = rescue(cloud, server, image, wake=False) if verb == "rescue" else cloud.begin(server, verb)
    assert cloud.claim(action_id, cloud.get(server).host, "dead-worker")
    cloud.expire(action_id)
    cloud.conductor._sweep()
    cloud.wait_action(action_id, "done")
    assert state(cloud, server) == ("rescued" if verb == "rescue" else "active", None, 1)


@pytest.fixture
def meddled(cloud):
    """A server, and its host's driver."""
    server = cloud.active()
    manager = cloud.hosts[cloud.get(server).host]
    driver = Meddling(manager.host.driver)
    manager.host = dataclasses.replace(manager.host, driver=driver)
    return server, driver


def die_over(cloud, server, driver, image, when):
    """A rescue whose worker was killed before or after it booted the guest."""
    driver.calls.clear()
    driver.fail("rescue", DIED, when)
    action_id = rescue(cloud, server, image)
    cloud.wait_for(lambda: "rescue" in driver.calls and not cloud.hosts[cloud.get(server).host].leases.in_flight())
    return action_id


@pytest.mark.parametrize(("when", "booted"), [("before", 2), ("after", 1)])
@pytest.mark.parametrize("was_rescued", [True, False])
def test_a_rescue_that_was_killed_boots_the_guest_once(cloud, image, meddled, when, booted, was_rescued):
    """An older rescue, which has broken off or was declared over, has another image perhaps: the guest leaves that first."""
    server, driver = meddled
    if was_rescued:
        cloud.wait_action(rescue(cloud, server, image), "done")
        cloud.set(server, vm_state="error")
    action_id = die_over(cloud, server, driver, image, when)
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, "done")
    assert (state(cloud, server), driver.calls.count("rescue")) == (("rescued", None, 1), booted)
    assert driver.calls.count("power_off") == booted


def test_a_message_that_comes_twice_boots_the_guest_once(cloud, image, meddled):
    server, driver = meddled
    action_id = rescue(cloud, server, image)
    for _ in range(2):
        cloud.conductor.compute.wake(admin_context(), cloud.get(server).host, [action_id])
    cloud.wait_action(action_id, "done")
    cloud.conductor.compute.wake(admin_context(), cloud.get(server).host, [action_id])
    cloud.wait_action(cloud.operate(server, "unrescue"), "done")
    assert driver.calls.count("rescue") == 1


def test_a_rescue_whose_action_is_over_boots_nothing(cloud, image, meddled, monkeypatch):
    """Its host was taken for dead while it fetched the image, and the server is evacuated, say."""
    server, driver = meddled
    real = driver._real.cache_image

    def cancelled(*arguments):
        real(*arguments)
        cloud.db.write(actions.finish, [action_id], "it failed")
    monkeypatch.setattr(driver._real, "cache_image", cancelled)
    action_id = rescue(cloud, server, image, wake=False)
    host = cloud.get(server).host
    cloud.conductor.compute.wake(admin_context(), host, [action_id])
    cloud.wait_for(lambda: "cache_image" in driver.calls and not cloud.hosts[host].leases.in_flight())
    assert "rescue" not in driver.calls


def test_a_dead_host_ends_a_rescue_whose_guest_may_run(cloud, image, meddled):
    """No other host will have it: nobody has to wait."""
    server, driver = meddled
    action_id = die_over(cloud, server, driver, image, "after")
    cloud.silence(cloud.get(server).host)
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.action(action_id).state == "error"
    assert "stopped reporting" in cloud.get(server).fault["message"]


def test_a_rescued_server_can_be_deleted(cloud, image):
    server = cloud.active()
    cloud.wait_action(rescue(cloud, server, image), "done")
    host = cloud.get(server).host
    cloud.wait_action(cloud.operate(server, "delete"), "done")
    assert cloud.guests(host) == {}
