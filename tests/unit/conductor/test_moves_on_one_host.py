"""What a resize on its own host has set aside goes when its move has ended without that host, and nothing else goes."""
import pytest

from nova_lite.compute.api import ComputeAPI
from nova_lite.db import moves
from nova_lite.image import base as image_base
from nova_lite.network import base as network_base
from nova_lite.objects import migration, states
from nova_lite.objects.flavor import Flavor
from nova_lite.volume import base as volume_base

BIGGER = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=20)


@pytest.fixture
def cloud(make_cloud):
    return make_cloud("h1", compute__allow_resize_to_same_host=True)


@pytest.fixture
def resized(cloud):
    """A server that waits for its user's word, and its move."""
    server = cloud.active()
    cloud.operate(server, "resize", {"flavor": BIGGER.to_primitive()})
    cloud.wait(server, states.RESIZED)
    with cloud.db.read() as conn:
        return server, moves.find(conn, server)


def _look(cloud, server):
    """What the host keeps after it has looked at all that it has."""
    cloud.report("h1")
    cloud.sync("h1")
    cloud.wait_for(lambda: not cloud.hosts["h1"]._queues.is_busy(server))
    return cloud.hosts["h1"].host.driver.left_behind()


def _confirmed_while_its_host_was_dead(cloud, server, move):
    action_id = cloud.begin(server, "confirmResize", {"migration_id": move.id}, host="h1")
    cloud.silence("h1")
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.ACTIVE)


def _declared_active(cloud, server, _move):
    neighbours = image_base.load(cloud.conf), network_base.load(cloud.conf, None), volume_base.load(cloud.conf)
    ComputeAPI(cloud.conf, cloud.db, cloud.transport, *neighbours).reset_state(cloud.context, cloud.get(server), "active")


def _deleted_softly(cloud, server, _move):
    cloud.operate(server, "soft_delete")
    cloud.wait(server, states.SOFT_DELETED)


@pytest.mark.parametrize("end", [_confirmed_while_its_host_was_dead, _declared_active, _deleted_softly])
def test_it_goes_when_the_move_has_ended(cloud, resized, end):
    server, move = resized
    assert _look(cloud, server) == {server}
    end(cloud, server, move)
    guests = cloud.guests("h1")
    assert _look(cloud, server) == set()
    assert cloud.guests("h1") == guests == {server: cloud.get(server).power_state}


@pytest.mark.parametrize("status", [migration.CONFIRMING, migration.REVERTING])
def test_what_an_open_move_may_need_stays(cloud, resized, status):
    server, move = resized
    cloud.db.write(moves.update, move.id, {"status": status})
    cloud.set(server, vm_state=states.ACTIVE)
    assert _look(cloud, server) == {server}


def test_what_is_all_that_there_is_of_a_server_stays(cloud, resized):
    server, move = resized
    cloud.db.write(moves.update, move.id, {"status": migration.ERROR})
    cloud.set(server, vm_state=states.ERROR)
    cloud.hosts["h1"].host.driver._set(server, None)
    assert _look(cloud, server) == {server}
