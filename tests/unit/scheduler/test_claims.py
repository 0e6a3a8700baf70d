"""Claims in the database: never more than there is, never twice, never lost."""
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_lite.db import claims, models
from tests.unit.scheduler.hosts import uuids


def test_a_claim_takes_room_once_and_release_gives_it_back_once(cloud):
    node = cloud.add("h1", vcpus=4)
    assert cloud.db.write(claims.claim, "a", node, 2, 512, 5)
    assert cloud.db.write(claims.claim, "a", node, 2, 512, 5)
    assert cloud.used() == {"h1": (2, 512, 5, 1)}
    assert cloud.db.write(claims.release, "a") == 1
    assert cloud.db.write(claims.release, "a") == 0
    assert cloud.used() == {"h1": (0, 0, 0, 0)}


def test_each_resource_is_limited_by_what_is_not_reserved_times_its_ratio(cloud):
    node = cloud.add("h1", vcpus=4, memory_mb=1000, local_gb=100, ratio=2.5)
    cloud.run(sa.update(models.compute_nodes).values(reserved_vcpus=2, reserved_memory_mb=100, reserved_local_gb=10))
    assert not cloud.db.write(claims.claim, "a", node, 6, 1, 1)
    assert not cloud.db.write(claims.claim, "a", node, 1, 901, 1)
    assert not cloud.db.write(claims.claim, "a", node, 1, 1, 91)
    assert cloud.used() == cloud.allocated() == {"h1": (0, 0, 0, 0)}
    assert cloud.db.write(claims.claim, "a", node, 5, 900, 90)
    assert not cloud.db.write(claims.claim, "b", node, 0, 1, 0)


def test_an_over_full_disk_does_not_matter_to_who_needs_none(cloud):
    node = cloud.add("h1")
    cloud.run(sa.update(models.compute_nodes).values(local_gb_used=5000))
    assert cloud.db.write(claims.claim, "a", node, 1, 1, 0)
    assert not cloud.db.write(claims.claim, "b", node, 1, 1, 1)


def test_a_node_that_is_gone_takes_nobody(cloud):
    assert not cloud.db.write(claims.claim, "a", 12345, 1, 1, 1)
    with cloud.db.read() as conn:
        assert claims.held_by(conn, ["a"]) == {}


def test_claims_on_two_nodes_end_one_by_one(cloud):
    first, second = cloud.add("h1"), cloud.add("h2")
    for node in (first, second):
        assert cloud.db.write(claims.claim, "a", node, 1, 100, 1)
    assert cloud.db.write(claims.release, "a", first) == 1
    assert cloud.used() == {"h1": (0, 0, 0, 0), "h2": (1, 100, 1, 1)}
    with cloud.db.read() as conn:
        assert claims.held_by(conn, ["a"]) == {"a": [claims.Claim("a", second, 1, 100, 1)]}
        assert claims.hosts_of(conn, ["a", "unknown"]) == {"h2"}


def test_a_batch_that_does_not_fit_gets_what_there_is(cloud):
    nodes = [cloud.add("h1", vcpus=3), cloud.add("h2", vcpus=1)]
    wanted = [claims.Claim(f"i{n}", nodes[n % 2], 1, 10, 1) for n in range(8)]
    assert cloud.db.write(claims.claim_many, wanted) == {"i0", "i1", "i2", "i4"}
    assert cloud.used() == cloud.allocated() == {"h1": (3, 30, 3, 3), "h2": (1, 10, 1, 1)}


def test_a_batch_costs_few_statements(cloud):
    nodes = [cloud.add(f"h{n}") for n in range(10)]
    wanted = [claims.Claim(f"i{n}", nodes[n % 7], 1, 10, 1) for n in range(20)]
    seen = []
    sa.event.listen(cloud.db.engine, "before_cursor_execute", lambda *a: seen.append(a[2]))
    assert len(cloud.db.write(claims.claim_many, wanted)) == 20
    assert len([s for s in seen if s.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE")]) <= 4
    assert cloud.used() == cloud.allocated()


def test_recompute_repairs_sums(cloud):
    node = cloud.add("h1")
    cloud.db.write(claims.claim, "a", node, 3, 30, 4)
    assert cloud.db.write(claims.recompute, node) is False
    cloud.run(sa.update(models.compute_nodes).values(vcpus_used=99, instances_used=7))
    assert cloud.db.write(claims.recompute, node) is True
    assert cloud.used() == {"h1": (3, 30, 4, 1)}
    assert cloud.db.write(claims.recompute, 999) is False


@pytest.mark.parametrize("column", ["vcpus_used", "memory_mb_used", "local_gb_used", "instances_used"])
def test_one_query_finds_the_nodes_whose_sums_are_wrong(cloud, column):
    used, empty, right, _also = (cloud.add(f"h{n}") for n in range(4))
    for number, node in enumerate((used, used, right)):
        cloud.db.write(claims.claim, f"i{number}", node, 3, 30, 4)
    with cloud.db.read() as conn:
        assert claims.wrong_nodes(conn) == []
    nodes = models.compute_nodes
    cloud.run(sa.update(nodes).where(nodes.c.id.in_([used, empty])).values({column: 1}))
    with cloud.db.read() as conn:
        assert claims.wrong_nodes(conn) == [used, empty]


def test_anti_affinity_limits_members_per_host(cloud):
    nodes = [cloud.add("h1"), cloud.add("h2")]
    group = cloud.group("anti-affinity", "abcd", max_server_per_host=2)
    granted = [cloud.db.write(claims.claim, m, nodes[0], 1, 1, 1, group) for m in "abc"]
    assert granted == [True, True, False]
    assert cloud.db.write(claims.claim, "a", nodes[0], 1, 1, 1, group)      # again: has it already
    batch = [claims.Claim("c", nodes[0], 1, 1, 1), claims.Claim("d", nodes[1], 1, 1, 1)]
    assert cloud.db.write(claims.claim_many, batch, group) == {"d"}
    cloud.db.write(claims.release, "a")
    assert cloud.db.write(claims.claim, "c", nodes[0], 1, 1, 1, group)


def test_affinity_keeps_members_on_the_first_ones_host(cloud):
    nodes = [cloud.add("h1"), cloud.add("h2")]
    group = cloud.group("affinity", "abc")
    batch = [claims.Claim("a", nodes[1], 1, 1, 1), claims.Claim("b", nodes[0], 1, 1, 1)]
    assert cloud.db.write(claims.claim_many, batch, group) == {"a"}
    assert not cloud.db.write(claims.claim, "b", nodes[0], 1, 1, 1, group)
    assert cloud.db.write(claims.claim, "b", nodes[1], 1, 1, 1, group)


def test_two_nodes_of_one_host_are_one_host_to_a_group(cloud):
    nodes = [cloud.add("h1", node="n1"), cloud.add("h1", node="n2")]
    group = cloud.group("anti-affinity", "ab")
    assert cloud.db.write(claims.claim, "a", nodes[0], 1, 1, 1, group)
    assert not cloud.db.write(claims.claim, "b", nodes[1], 1, 1, 1, group)


def test_many_threads_never_exceed_capacity(cloud):
    nodes = [cloud.add(f"h{n}", vcpus=5, memory_mb=4000, local_gb=60) for n in range(4)]
    chance = random.Random(7)
    jobs = [[claims.Claim(u, chance.choice(nodes), chance.randint(1, 3), chance.randint(100, 900), chance.randint(0, 9))
             for u in uuids(chance.choice([1, 1, 4]))] for _ in range(40)]
    jobs += jobs[:10]       # the same request, twice at the same time
    chance.shuffle(jobs)
    granted, lock = set(), threading.Lock()

    def work(job):
        got = cloud.db.write(claims.claim_many, job)
        with lock:
            granted.update((c.instance_uuid, c.node_id) for c in job if c.instance_uuid in got)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, jobs))
    used = cloud.used()
    assert used == cloud.allocated()
    assert all(v <= 5 and m <= 4000 and d <= 60 for v, m, d, _ in used.values())
    assert sum(n for *_, n in used.values()) == len(granted) > 8
    with ThreadPoolExecutor(8) as pool:     # each is released twice, at the same time
        ended = sum(pool.map(lambda u: cloud.db.write(claims.release, u), [u for u, _ in granted] * 2))
    assert ended == len(granted)
    assert set(cloud.used().values()) == {(0, 0, 0, 0)}


def test_many_threads_never_break_anti_affinity(cloud):
    nodes = [cloud.add(f"h{n}") for n in range(3)]
    members = uuids(12)
    group = cloud.group("anti-affinity", members)
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda m: cloud.db.write(claims.claim, m, nodes[members.index(m) % 3], 1, 1, 1, group), members))
    assert got.count(True) == 3
    assert {n for *_, n in cloud.used().values()} == {1}
