"""Rescues on a host."""
import pytest

from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.image import base as image_base

OWNER = RequestContext(user_id="u", project_id="p", overwrite=False)


@pytest.fixture
def image(cloud):
    images = image_base.load(cloud.conf)
    return images.upload(OWNER, images.create(OWNER, {"name": "rescue"}).id, [b"x"])


def rescue(cloud, server, image, wake=True):
    action_id, host = cloud.db.write(api._begin, OWNER, server, "rescue", {"image": image.to_primitive()},
                                     cloud.conf.conductor.lease_seconds)
    if wake:
        cloud.conductor.compute.wake(admin_context(), host, "rescue_instance", action_id)
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


def test_a_rescued_server_can_be_deleted(cloud, image):
    server = cloud.active()
    cloud.wait_action(rescue(cloud, server, image), "done")
    host = cloud.get(server).host
    cloud.wait_action(cloud.operate(server, "delete"), "done")
    assert cloud.guests(host) == {}
