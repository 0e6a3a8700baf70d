"""What quotas count of a server whose resize, or the way back, was given up: its own flavor, and not what it was to be."""
import oslo_messaging as messaging
import pytest
import sqlalchemy as sa

from nova_lite.compute import moves
from nova_lite.compute.api import ComputeAPI
from nova_lite.db import models, quotas
from nova_lite.image import base as image_base
from nova_lite.network import base as network_base
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.volume import base as volume_base

from .cloud import FLAVOR

BIGGER = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=10)


@pytest.fixture
def api(cloud):
    """What users ask, with all that it writes."""
    neighbours = image_base.load(cloud.conf), network_base.load(cloud.conf, None), volume_base.load(cloud.conf)
    return ComputeAPI(cloud.conf, cloud.db, cloud.transport, *neighbours)


def _used(cloud):
    with cloud.db.read() as conn:
        used = quotas.usage(conn, "p")
    return used["cores"], used["ram"]


@pytest.mark.parametrize("why", ["the old host does not answer", "its workers died"])
def test_a_revert_that_failed_counts_what_the_server_is(cloud, api, monkeypatch, why):
    server = cloud.active(flavor=BIGGER)
    cloud.operate(server, "resize", {"flavor": FLAVOR.to_primitive()})
    dest = cloud.wait(server, states.RESIZED).host
    assert _used(cloud) == (1, 1024)
    if why == "its workers died":
        monkeypatch.setattr(cloud.hosts[dest], "_take_up", lambda ids: None)
    else:
        monkeypatch.setattr(moves, "HOST_RETURNS", 0.0)

        def is_silent(*_arguments):
            raise messaging.MessagingTimeout
        monkeypatch.setattr(cloud.conductor.compute, "holds", is_silent)
    api.revert_resize(cloud.context, cloud.get(server))
    if why == "its workers died":
        assert _used(cloud) == (2, 2048)
        actions = models.instance_actions
        cloud.run(sa.update(actions).where(actions.c.state == objects.PENDING).values(
            attempts=cloud.conf.conductor.max_attempts, state=objects.RUNNING, owner="a worker that dies"))
        cloud.expire()
        cloud.sweep()
    cloud.wait_for(lambda: cloud.get(server).fault)
    assert cloud.wait(server, states.RESIZED).flavor.vcpus == 1
    assert _used(cloud) == (1, 1024)


def test_a_resize_that_is_given_up_before_it_has_begun_counts_what_the_server_is(cloud):
    server = cloud.active()
    cloud.set(server, vcpus=BIGGER.vcpus, memory_mb=BIGGER.memory_mb)       # as the API does
    action_id = cloud.begin(server, "resize", {"flavor": BIGGER.to_primitive()})
    actions = models.instance_actions
    cloud.run(sa.update(actions).where(actions.c.id == action_id).values(attempts=cloud.conf.conductor.max_attempts))
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait_action(action_id, objects.ERROR)
    cloud.wait(server, states.ACTIVE)
    assert _used(cloud) == (1, 1024)
