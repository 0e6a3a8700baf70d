"""The scheduler through its RPC, on a real database: places, refusals, repetitions, races."""
import datetime
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_lite import exception, rpc, units
from nova_lite.context import admin_context
from nova_lite.db import claims, instances, models, moves, services
from nova_lite.objects.scheduling import Selection
from nova_lite.rpc.scheduler import SchedulerAPI
from nova_lite.scheduler import host_table
from nova_lite.scheduler.manager import SchedulerManager
from tests.unit.scheduler.hosts import spec, uuids


@pytest.fixture
def scheduler(cloud, monkeypatch):
    """Calls ``select_destinations`` over the in-memory bus."""
    monkeypatch.setitem(os.environ, "NOVA_LITE_CONCURRENCY", "threading")
    cloud.conf.set_override("enabled_filters", [*cloud.conf.scheduler.enabled_filters, "AggregateInstanceExtraSpecsFilter"],
                            "scheduler")
    transport = rpc.get_transport(cloud.conf)
    manager = SchedulerManager(cloud.conf, transport)
    manager.start()
    server = rpc.get_server(transport, rpc.SCHEDULER, "s1", manager.endpoints)
    server.start()
    api = SchedulerAPI(transport)
    def select_destinations(request, ids):
        return api.select_destinations(admin_context(), request, ids)
    select_destinations.periodics = manager.periodics
    yield select_destinations
    server.stop()
    server.wait()
    manager.stop()


def test_host_and_alternates_are_returned_and_the_host_is_claimed(cloud, scheduler):
    ids = {name: cloud.add(name, memory_mb=memory) for name, memory in (("h1", 4096), ("h2", 8192), ("h3", 2048), ("h4", 99))}
    answer = scheduler(spec(), ["i1"])
    assert answer == {"i1": [Selection("h2", "h2", ids["h2"], "nova"), Selection("h1", "h1", ids["h1"], "nova"),
                             Selection("h3", "h3", ids["h3"], "nova")]}
    assert cloud.used() == cloud.allocated()
    assert {h: u for h, u in cloud.used().items() if any(u)} == {"h2": (1, 1024, 10, 1)}


def test_a_batch_spreads(cloud, scheduler):
    for n in range(4):
        cloud.add(f"h{n}")
    answer = scheduler(spec(), uuids(8))
    assert sorted(hosts[0].host for hosts in answer.values()) == sorted(["h0", "h1", "h2", "h3"] * 2)
    assert set(cloud.used().values()) == {(2, 2048, 20, 2)}


def test_schedulers_beside_each_other_begin_with_different_ones_of_equal_hosts(cloud, scheduler):
    """Alone, one begins with the first."""
    for n in range(40):
        cloud.add(f"h{n:02}")

    def first(number):
        return scheduler(spec(), [number])[number][0].host

    assert [first("a"), first("b")] == ["h00", "h01"]
    cloud.db.write(services.heard_from, "elsewhere", services.SCHEDULER)
    for _seconds, function in scheduler.periodics():
        function()
    assert {first(f"c{n}") for n in range(10)} - {f"h{n:02}" for n in range(2, 12)}


def test_all_or_nothing(cloud, scheduler):
    cloud.add("h1", vcpus=2)
    with pytest.raises(exception.NoValidHost) as caught:
        scheduler(spec(), ["a", "b", "c"])
    assert str(caught.value) == ("No valid host was found. 1 host, CoreFilter left 0 (for server 3 of this request)")
    assert cloud.used() == {"h1": (0, 0, 0, 0)}


def test_no_host_at_all_is_a_clear_refusal(scheduler):
    with pytest.raises(exception.NoValidHost, match="0 hosts"):
        scheduler(spec(), ["a"])


def test_the_same_request_again_takes_no_second_place(cloud, scheduler):
    for n in range(3):
        cloud.add(f"h{n}")
    for _ in range(3):
        answer = scheduler(spec(), ["a", "b"])
        assert sum(n for *_, n in cloud.used().values()) == 2
        with cloud.db.read() as conn:
            held = claims.held_by(conn, ["a", "b"])
        assert {u: c[0].node_id for u, c in held.items()} == {u: s[0].compute_node_id for u, s in answer.items()}


def test_a_full_host_takes_the_same_request_again(cloud, scheduler):
    cloud.add("h1", vcpus=2)
    for _ in range(2):
        assert len(scheduler(spec(), ["a", "b"])) == 2


def test_changes_are_seen_by_the_next_request(cloud, scheduler):
    cloud.add("h1")
    assert scheduler(spec(), ["a"])["a"][0].host == "h1"
    cloud.service("h1", disabled=True)
    with pytest.raises(exception.NoValidHost, match="ComputeFilter left 0"):
        scheduler(spec(), ["b"])
    cloud.add("h2")
    assert [s.host for s in scheduler(spec(), ["b"])["b"]] == ["h2"]
    cloud.service("h1", disabled=False)
    cloud.service("h2", forced_down=True)
    assert [s.host for s in scheduler(spec(), ["c"])["c"]] == ["h1"]
    cloud.service("h2", forced_down=False)
    node = models.compute_nodes
    cloud.run(sa.update(node).where(node.c.host == "h2").values(vcpus_used=16, updated_at=units.utcnow()))
    assert [s.host for s in scheduler(spec(), ["d"])["d"]] == ["h1"]
    cloud.run(sa.delete(node).where(node.c.host == "h1"))
    with pytest.raises(exception.NoValidHost, match="1 host, CoreFilter left 0"):
        scheduler(spec(), ["e"])


def test_a_silent_host_is_down_and_comes_back(cloud, scheduler, monkeypatch):
    monkeypatch.setattr(host_table, "CHECK_INTERVAL", 0.0)
    cloud.add("h1")
    services = models.services
    cloud.run(sa.update(services).values(last_seen_at=units.utcnow() - datetime.timedelta(seconds=31)))
    with pytest.raises(exception.NoValidHost, match="ComputeFilter left 0"):
        scheduler(spec(), ["a"])
    cloud.run(sa.update(services).values(last_seen_at=units.utcnow()))      # a heartbeat: nothing but the time
    assert scheduler(spec(), ["a"])["a"][0].host == "h1"


def test_zones_follow_the_aggregates(cloud, scheduler):
    cloud.add("h1"), cloud.add("h2")
    assert {s.host for s in scheduler(spec(availability_zone="nova"), ["a"])["a"]} == {"h1", "h2"}
    aggregates, members = models.aggregates, models.aggregate_hosts
    cloud.run(sa.insert(aggregates).values(id=1, uuid="a1", name="a1", metadata={"availability_zone": "az1", "disk": "ssd"},
                                           created_at=units.utcnow()))
    cloud.run(sa.insert(members).values(aggregate_id=1, host="h2"))
    assert scheduler(spec(availability_zone="az1"), ["b"])["b"][0].availability_zone == "az1"
    assert [s.host for s in scheduler(spec(availability_zone="nova"), ["c"])["c"]] == ["h1"]
    wanted = {"aggregate_instance_extra_specs:disk": "ssd"}
    assert [s.host for s in scheduler(spec(extra_specs=wanted), ["d"])["d"]] == ["h2"]
    cloud.run(sa.update(aggregates).values(metadata={}, updated_at=units.utcnow()))
    with pytest.raises(exception.NoValidHost, match="AvailabilityZoneFilter left 0"):
        scheduler(spec(availability_zone="az1"), ["e"])


def test_hints_name_servers(cloud, scheduler):
    for n in range(3):
        cloud.add(f"h{n}")
    first = scheduler(spec(), ["a"])["a"][0].host
    assert [s.host for s in scheduler(spec(scheduler_hints={"same_host": ["a"]}), ["b"])["b"]] == [first]
    assert first not in {s.host for s in scheduler(spec(scheduler_hints={"different_host": "a"}), ["c"])["c"]}
    with pytest.raises(exception.NoValidHost, match="SameHostFilter left 0"):
        scheduler(spec(scheduler_hints={"same_host": ["nobody"]}), ["d"])


def test_groups_over_several_requests(cloud, scheduler):
    for n in range(3):
        cloud.add(f"h{n}")
    apart = cloud.group("anti-affinity", "abcd")
    assert len({scheduler(spec(group=apart), [m])[m][0].host for m in "abc"}) == 3
    with pytest.raises(exception.NoValidHost, match="3 hosts, ServerGroupAntiAffinityFilter left 0"):
        scheduler(spec(group=apart), ["d"])
    together = cloud.group("affinity", "xyz")
    assert len({scheduler(spec(group=together), [m])[m][0].host for m in "xyz"}) == 1


def server_on(cloud, host, uuid="a"):
    """What the conductor has written down of a server with a host."""
    cloud.run(sa.insert(models.instances).values(
        uuid=uuid, project_id="p", user_id="u", display_name=uuid, vm_state="active", flavor_ref="1",
        flavor=spec().flavor.to_primitive(), vcpus=1, memory_mb=1, root_gb=1, metadata={}, system_metadata={}, network_info=[],
        security_groups=[], scheduler_hints={},
        host=host, node=host, created_at=units.utcnow()))


def test_a_moving_member_does_not_bind_itself(cloud, scheduler):
    nodes = {name: cloud.add(name) for name in ("h1", "h2")}
    group = cloud.group("affinity", "a")
    assert cloud.db.write(claims.claim, "a", nodes["h1"], 1, 1, 1)
    server_on(cloud, "h1")
    assert scheduler(spec(group=group, ignore_hosts=["h1"]), ["a"])["a"][0].host == "h2"
    assert cloud.used()["h1"][3] == 1       # what it holds where it runs is kept


def moves_away(cloud, uuid, source, target):
    """What a move has written down: it keeps the room on the old host, the server has that on the new one."""
    assert cloud.db.write(claims.claim, uuid, cloud.nodes[source], 1, 1, 1)
    server_on(cloud, source, uuid)
    with cloud.db.read() as conn:
        server = instances.get(conn, uuid)
    move = cloud.db.write(moves.create, server, "migration", "migrating")
    cloud.db.write(claims.rename, uuid, move.uuid)
    assert cloud.db.write(claims.claim, uuid, cloud.nodes[target], 1, 1, 1)
    return move


def test_a_member_that_moves_keeps_others_from_both_its_hosts(cloud, scheduler):
    cloud.nodes = {name: cloud.add(name) for name in ("h1", "h2", "h3")}
    group = cloud.group("anti-affinity", "abc")
    move = moves_away(cloud, "a", "h1", "h2")
    assert not cloud.db.write(claims.claim, "b", cloud.nodes["h1"], 1, 1, 1, group)
    assert [s.host for s in scheduler(spec(group=group), ["b"])["b"]] == ["h3"]
    with pytest.raises(exception.NoValidHost, match="ServerGroupAntiAffinityFilter left 0"):
        scheduler(spec(group=group), ["c"])
    cloud.db.write(claims.release, move.uuid)
    cloud.db.write(moves.update, move.id, {"status": "confirmed"})
    assert scheduler(spec(group=group), ["c"])["c"][0].host == "h1"


def test_others_follow_a_member_that_moves(cloud, scheduler):
    cloud.nodes = {name: cloud.add(name) for name in ("h1", "h2", "h3")}
    group = cloud.group("affinity", "ab")
    moves_away(cloud, "a", "h1", "h2")
    assert not cloud.db.write(claims.claim, "b", cloud.nodes["h1"], 1, 1, 1, group)
    assert [s.host for s in scheduler(spec(group=group), ["b"])["b"]] == ["h2"]


@pytest.mark.parametrize(("placed_on", "used"), [("h1", 1), ("h2", 2)])
def test_a_request_that_is_late_and_fails_takes_nothing_from_a_server_that_was_placed_meanwhile(cloud, placed_on, used):
    nodes = {"h1": cloud.add("h1"), "h2": cloud.add("h2", vcpus=2, memory_mb=131072), "h3": cloud.add("h3")}
    # another scheduler was asked again and has answered
    assert cloud.db.write(claims.claim, "a", nodes[placed_on], 1, 1024, 10)
    server_on(cloud, placed_on)
    manager, table = SchedulerManager(cloud.conf), models.compute_nodes
    manager.start()
    for host, vcpus_used in (("h2", used), ("h3", 16)):     # what its table does not know yet: room for "a" only
        cloud.run(sa.update(table).where(table.c.host == host).values(
            vcpus_used=vcpus_used, updated_at=units.utcnow() - datetime.timedelta(hours=1)))
    with pytest.raises(exception.NoValidHost):
        manager._placer.place(spec(ignore_hosts=["h1"]), ["a", "b"])
    manager.stop()
    assert {host: held for host, held in cloud.allocated().items() if any(held)} == {placed_on: (1, 1024, 10, 1)}


def test_a_request_that_is_late_leaves_a_server_its_room_that_gets_its_host_at_that_moment(cloud, monkeypatch):
    nodes = {name: cloud.add(name) for name in ("h1", "h2")}
    assert cloud.db.write(claims.claim, "a", nodes["h1"], 1, 1024, 10)
    manager, look = SchedulerManager(cloud.conf), claims.held_without_host

    def look_and_be_late(conn, uuids):
        found = look(conn, uuids)
        conn.rollback()
        server_on(cloud, "h1")
        return found
    monkeypatch.setattr(claims, "held_without_host", look_and_be_late)
    manager._placer.place(spec(ignore_hosts=["h1"]), ["a"])
    manager.stop()
    assert cloud.allocated()["h1"][3] == 1


def test_a_forced_host_that_is_full_refuses_and_says_so(cloud, scheduler):
    cloud.add("h1", vcpus=1), cloud.add("h2")
    wanted = {"requested_destination": {"host": "h1", "force": True}}
    assert scheduler(spec(**wanted), ["a"])["a"][0].host == "h1"
    with pytest.raises(exception.NoValidHost, match="claim left 1, ForcedHostFilter left 0"):
        scheduler(spec(**wanted), ["b"])


def test_two_schedulers_and_many_requests_fill_the_hosts_exactly(cloud):
    for n in range(5):
        cloud.add(f"h{n}", vcpus=8)
    managers = [SchedulerManager(cloud.conf), SchedulerManager(cloud.conf)]
    group = cloud.group("anti-affinity", members := uuids(8))
    jobs = [(spec(), uuids(2)) for _ in range(16)] + [(spec(group=group), [m]) for m in members]
    placed, lock = {}, threading.Lock()

    def work(number):
        request, ids = jobs[number]
        try:
            chosen = managers[number % 2]._placer.place(request, ids)
        except exception.NoValidHost:
            return
        with lock:
            placed.update({u: hosts[0].host for u, hosts in chosen.items()})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(len(jobs))))
    used = cloud.used()
    assert used == cloud.allocated()
    assert all(v <= 8 for v, *_ in used.values())
    grouped = [placed[m] for m in members if m in placed]
    assert len(grouped) == len(set(grouped)) > 0
    assert sum(n for *_, n in used.values()) == len(placed) == 32 + len(grouped)    # 40 places: room for all others
    for manager in managers:
        manager.stop()
