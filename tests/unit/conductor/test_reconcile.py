"""The reconciler gives back what belongs to nobody, puts sums right, and touches nothing else."""
import threading
import uuid

import pytest
import sqlalchemy as sa

from nova_lite import units
from nova_lite.conductor.reconcile import Reconciler
from nova_lite.db import actions, claims, instances, models, moves
from nova_lite.objects import states
from tests.unit.conductor.cloud import HOUR


def claim(cloud, server, host):
    """The server holds room on a host, whatever is known of it."""
    def write(conn):
        nodes = models.compute_nodes
        node = conn.execute(sa.select(nodes.c.id).where(nodes.c.host == host)).scalar_one()
        assert claims.claim(conn, server, node, 1, 1024, 10)
    cloud.db.write(write)


def age(cloud):
    """All claims were made an hour ago."""
    cloud.run(sa.update(models.allocations).values(created_at=units.utcnow() - HOUR))


def test_room_that_belongs_to_no_server_is_given_back_when_it_is_old(cloud):
    server, nobody = cloud.active(), str(uuid.uuid4())
    host = cloud.get(server).host
    other = "h2" if host == "h1" else "h1"
    claim(cloud, nobody, host)
    claim(cloud, server, other)         # as an attempt to place it that was cut off left it
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {host: {server, nobody}, other: {server}}      # a placement may be under way
    age(cloud)
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {host: {server}}


def test_room_that_was_claimed_anew_since_the_look_stays(cloud, monkeypatch):
    nobody = str(uuid.uuid4())
    claim(cloud, nobody, "h1")
    age(cloud)
    holding = moves.holding

    def claimed_anew(conn, uuids):
        conn.execute(sa.update(models.allocations).values(created_at=units.utcnow()))
        return holding(conn, uuids)
    monkeypatch.setattr(moves, "holding", claimed_anew)
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {"h1": {nobody}}


def test_room_of_a_server_that_was_deleted_behind_the_back_of_all_is_given_back(cloud):
    server = cloud.active()
    cloud.run(sa.update(models.instances).where(models.instances.c.uuid == server).values(deleted=1))
    age(cloud)
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {}


def test_room_of_a_server_that_is_being_placed_stays(cloud):
    [(server, _action)] = cloud.create()
    claim(cloud, server, "h1")
    age(cloud)
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {"h1": {server}}


def test_a_server_that_lost_its_room_gets_it_back_even_on_a_full_node(cloud):
    server, failed = cloud.active(), cloud.active()
    cloud.db.write(claims.release_many, [server, failed])
    cloud.set(failed, launched_at=None, vm_state=states.ERROR)     # never was more than a build
    cloud.run(sa.update(models.compute_nodes).values(memory_mb=512))
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {cloud.get(server).host: {server}}
    with cloud.db.read() as conn:
        [held] = claims.held_by(conn, [server])[server]
    assert (held.vcpus, held.memory_mb, held.disk_gb) == (1, 1024, 10)


def test_a_server_that_somebody_works_on_is_given_no_room(cloud):
    busy, reset, lost = (cloud.active() for _ in range(3))
    for server in (busy, reset):
        cloud.begin(server, "stop")
    cloud.set(reset, task_state=None)       # os-resetState
    cloud.db.write(claims.release_many, [busy, reset, lost])
    cloud.conductor.reconciler.run()
    assert set().union(*cloud.claimed().values()) == {lost}


def test_wrong_sums_are_put_right(cloud):
    server = cloud.active()
    nodes = models.compute_nodes
    cloud.run(sa.update(nodes).values(vcpus_used=77, memory_mb_used=0, instances_used=5))
    cloud.conductor.reconciler.run()
    assert cloud.claimed() == {cloud.get(server).host: {server}}        # compares the sums, too
    with cloud.db.read() as conn:
        assert sorted(conn.execute(sa.select(nodes.c.memory_mb_used)).scalars()) == [0, 1024]


def test_what_a_run_asks_does_not_grow_with_the_hosts_and_only_a_wrong_one_is_written(make_cloud):
    cloud, nodes = make_cloud("h1", "h2"), models.compute_nodes
    seen = []
    sa.event.listen(cloud.conductor.db.engine, "before_cursor_execute",
                    lambda *a: seen.append(a[2]) if threading.current_thread() is threading.main_thread() else None)
    cloud.conductor.reconciler.run()
    of_two = len(seen)
    for number in range(3, 9):
        cloud.add_host(f"h{number}")
    seen.clear()
    cloud.conductor.reconciler.run()
    assert len(seen) == of_two
    cloud.run(sa.update(nodes).where(nodes.c.host == "h5").values(vcpus_used=77))
    seen.clear()
    cloud.conductor.reconciler.run()
    assert len([text for text in seen if text.startswith("UPDATE compute_nodes")]) == 1
    assert cloud.claimed() == {}


@pytest.mark.parametrize("keep", [3600, 0])
def test_deleted_servers_leave_after_their_time(cloud, keep):
    old, young, alive = (cloud.active() for _ in range(3))
    for server in (old, young):
        cloud.operate(server, "delete")
        cloud.wait_for(lambda one=server: cloud.get(one).deleted)
    cloud.run(sa.update(models.instances).where(models.instances.c.uuid == old).values(deleted_at=units.utcnow() - 2 * HOUR))
    cloud.conf.set_override("purge_deleted_after", keep, group="database")
    Reconciler(cloud.conf, cloud.db).purge()
    with cloud.db.read() as conn:
        left = set(instances.get_many(conn, [old, young, alive], deleted=True))
        assert left == ({young, alive} if keep else {old, young, alive})
        assert bool(actions.list_for_instance(conn, old)) == (not keep)
        assert actions.list_for_instance(conn, young)
    assert cloud.get(alive).vm_state == states.ACTIVE
