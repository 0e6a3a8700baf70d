"""A server with a volume is resized: the volume goes with it, back and forth, whichever daemon dies at which line."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.db import moves
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from tests.unit.compute.volumes.volume_cloud import DIED

BIGGER = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=20)
NEW_HOST = [("drivers", "receive_guest"), ("host_volumes", "reserve"), ("host_volumes", "release"), ("host_volumes", "connect"),
            ("drivers", "connect_volume"), ("drivers", "finish_move"), ("host_volumes", "complete")]


@pytest.fixture
def cloud(make_volume_cloud):
    return make_volume_cloud("h1", "h2")


@pytest.fixture
def server(cloud):
    made, volume = cloud.running(), cloud.volume()
    cloud.attach(made, volume)
    cloud.actions_end(made)
    return made


def _move(cloud, server):
    with cloud.db.read() as conn:
        return moves.list_all(conn, {"instance_uuid": server})[0]


def _resize(cloud, server):
    return cloud.operate(server, "resize", {"flavor": BIGGER.to_primitive()})


def _word(cloud, server, verb):
    move = _move(cloud, server)
    return cloud.operate(server, verb, {"migration_id": move.id},
                         host=move.source_compute if verb == "confirmResize" else None)


def _settled(cloud, server, vm_state, host):
    """One guest, one room for it (and one for the way back), one attachment, and nothing else."""
    found = cloud.wait(server, vm_state, 20)
    assert found.host == host
    assert {name: cloud.guests(name) for name in ("h1", "h2") if cloud.guests(name)} == {host: {server: states.RUNNING}}
    [device] = found.volumes
    [attachment] = cloud.attachments()
    assert (device.attached, device.attachment_id, attachment["status"]) == (True, attachment["id"], "attached")
    assert device.connection_info is not None
    if vm_state == states.ACTIVE:
        assert all(not cloud.hosts[name].host.driver.left_behind() for name in ("h1", "h2"))
        assert cloud.holders() == {host: [(server, found.flavor.vcpus)]}


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
def test_a_volume_goes_along(cloud, server, word):
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    _resize(cloud, server)
    _settled(cloud, server, states.RESIZED, new)
    _word(cloud, server, word)
    _settled(cloud, server, states.ACTIVE, new if word == "confirmResize" else old)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("part", "method"), NEW_HOST)
def test_a_new_host_that_dies_goes_on_when_it_is_back(cloud, server, part, method, when):
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    getattr(cloud, part)[new].fail(method, DIED, when)
    _resize(cloud, server)
    cloud.wait_for(lambda: method in getattr(cloud, part)[new].calls and cloud.hosts[new].leases.in_flight() == [], 10)
    assert cloud.get(server).task_state in states.RESIZE_STATES
    cloud.take_over()
    _settled(cloud, server, states.RESIZED, new)
    _word(cloud, server, "confirmResize")
    _settled(cloud, server, states.ACTIVE, new)


@pytest.mark.parametrize(("part", "method"), NEW_HOST)
def test_what_fails_brings_the_volume_back(cloud, server, part, method):
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    getattr(cloud, part)[new].fail(method, RuntimeError("no more"), "after")
    _resize(cloud, server)
    _settled(cloud, server, states.ACTIVE, old)
    assert "RuntimeError" in cloud.get(server).fault["message"]
    assert _move(cloud, server).status == "error"


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_failed_is_undone_also_by_the_next_daemon(cloud, server, when):
    """Half of the guest is gone from the new host: it is not gone on with, and the user is told what failed."""
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    cloud.drivers[new].fail("finish_move", RuntimeError("no more"))
    cloud.drivers[new].fail("drop_received", DIED, when)
    _resize(cloud, server)
    cloud.wait_for(lambda: "drop_received" in cloud.drivers[new].calls and cloud.hosts[new].leases.in_flight() == [], 10)
    cloud.take_over()
    _settled(cloud, server, states.ACTIVE, old)
    assert "RuntimeError" in cloud.get(server).fault["message"]
    assert cloud.drivers[new].calls.count("finish_move") == 1
    assert _move(cloud, server).status == "error"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["drop_received", "bring_back"])
def test_a_revert_goes_on_where_a_dead_daemon_left_it(cloud, server, method, when):
    old = cloud.get(server).host
    _resize(cloud, server)
    new = cloud.wait(server, states.RESIZED, 20).host
    place = new if method == "drop_received" else old
    cloud.drivers[place].fail(method, DIED, when)
    _word(cloud, server, "revertResize")
    cloud.wait_for(lambda: method in cloud.drivers[place].calls and cloud.hosts[place].leases.in_flight() == [], 10)
    cloud.take_over()
    _settled(cloud, server, states.ACTIVE, old)


# a neighbour that is away -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["reserve", "connect", "complete"])
@pytest.mark.parametrize("way", ["undo", "revert"])
def test_the_way_home_waits_for_the_volume_service(cloud, server, way, method):
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    if way == "undo":
        cloud.drivers[new].fail("finish_move", RuntimeError("no more"))
    _resize(cloud, server)
    if way == "revert":
        cloud.wait(server, states.RESIZED)
    cloud.host_volumes[old].fail(method, times=5)
    if way == "revert":
        _word(cloud, server, "revertResize")
    cloud.wait_for(lambda: cloud.host_volumes[old].calls.count(method) > 5)
    _settled(cloud, server, states.ACTIVE, old)


@pytest.mark.parametrize("way", ["undo", "revert"])
def test_the_way_home_waits_for_the_key_manager(cloud, server, way):
    """A guest with encrypted disks cannot be started without it."""
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    if way == "undo":
        cloud.drivers[new].fail("finish_move", RuntimeError("no more"))
    _resize(cloud, server)
    if way == "revert":
        cloud.wait(server, states.RESIZED)
    cloud.drivers[old].fail("bring_back", exception.ServiceUnavailable(what="The key manager", reason="it is away"))
    if way == "revert":
        _word(cloud, server, "revertResize")
    _settled(cloud, server, states.ACTIVE, old)
    assert cloud.drivers[old].calls.count("bring_back") > 1


def test_a_delete_ends_the_waiting(cloud, server):
    _resize(cloud, server)
    new = cloud.wait(server, states.RESIZED).host
    old = "h2" if new == "h1" else "h1"
    cloud.host_volumes[old].fail("reserve", times=10 ** 6)
    _word(cloud, server, "revertResize")
    cloud.wait_for(lambda: cloud.host_volumes[old].calls.count("reserve") > 3)
    cloud.delete(server)
    cloud.wait_for(lambda: not cloud.attachments())


def test_a_start_mends_what_broke_off_on_the_way_home(cloud, server):
    old = cloud.get(server).host
    _resize(cloud, server)
    cloud.wait(server, states.RESIZED)
    cloud.host_volumes[old].fail("connect", RuntimeError("nobody thought of this"))
    _word(cloud, server, "revertResize")
    found = cloud.wait(server, states.ERROR)
    assert (found.host, found.volumes[0].connection_info) == (old, None)
    cloud.operate(server, "reboot_hard")
    found = cloud.wait(server, states.ACTIVE)
    [device], [attachment] = found.volumes, cloud.attachments()
    assert (device.attached, device.attachment_id, attachment["status"]) == (True, attachment["id"], "attached")
    assert device.connection_info is not None
