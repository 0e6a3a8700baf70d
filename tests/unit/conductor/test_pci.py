"""Servers with PCI devices on fake hosts: what they hold, and what their hosts are told, from build to delete."""
import json

import pytest
import sqlalchemy as sa

from nova_lite import units
from nova_lite.compute.api import base as api
from nova_lite.compute.api import evacuation
from nova_lite.context import admin_context
from nova_lite.db import claims, instances, models, moves
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from tests.unit.conductor.cloud import HOUR

ONE = [{"alias": "gpu", "count": 1, "specs": [{"vendor_id": "10de"}]}]
GPU = Flavor(flavorid="3", name="gpu", vcpus=1, memory_mb=1024, root_gb=10, pci_requests=ONE)
BIGGER = Flavor(flavorid="4", name="two gpus", vcpus=2, memory_mb=1024, root_gb=10, pci_requests=[{**ONE[0], "count": 2}])
PLAIN = Flavor(flavorid="5", name="none", vcpus=1, memory_mb=1024, root_gb=10)


@pytest.fixture
def cloud(make_cloud, tmp_path):
    """Two hosts with three devices each, of which they offer two; their guests outlive the daemons."""
    devices = [json.dumps({"address": f"0000:0{n}:00.0", "vendor_id": "10de" if n < 3 else "8086", "product_id": "1eb8"})
               for n in (1, 2, 3)]
    return make_cloud("h1", "h2", fake__pci_devices=devices, pci__device_spec=['{"vendor_id": "10de"}'],
                      fake__state_file=str(tmp_path / "guests"))


@pytest.fixture
def told(cloud, monkeypatch):
    """What the hypervisors were told: [(operation, host, addresses)]."""
    found = []
    for host, manager in cloud.hosts.items():
        for name in ("spawn", "finish_move", "bring_back"):
            def tell(instance, *rest, run=getattr(manager.host.driver, name), name=name, host=host, **more):
                found.append((name, host, instance.pci_addresses(host)))
                return run(instance, *rest, **more)
            monkeypatch.setattr(manager.host.driver, name, tell)
    return found


def _held(cloud):
    """host -> {address: who has it}, of what is not free."""
    nodes, table = models.compute_nodes, models.pci_devices
    found = {}
    with cloud.db.read() as conn:
        for row in conn.execute(sa.select(nodes.c.host, table.c.address, table.c.consumer).join(
                nodes, nodes.c.id == table.c.compute_node_id).where(table.c.consumer.is_not(None))):
            found.setdefault(row.host, {})[row.address] = row.consumer
    return found


def _move(cloud):
    with cloud.db.read() as conn:
        return moves.list_all(conn)[0]


def _other(host):
    return {"h1": "h2", "h2": "h1"}[host]


def test_servers_get_what_is_there_and_give_it_back(cloud, told):
    servers = cloud.build(4, flavor=GPU)
    for server in servers:
        cloud.wait(server, states.ACTIVE)
    assert {h: set(held) for h, held in _held(cloud).items()} == dict.fromkeys(("h1", "h2"), {"0000:01:00.0", "0000:02:00.0"})
    assert sorted(told) == [("spawn", host, [address]) for host in ("h1", "h2") for address in ("0000:01:00.0", "0000:02:00.0")]
    [late] = cloud.build(flavor=GPU)
    assert "2 hosts, PciPassthroughFilter left 0" in cloud.wait(late, states.ERROR).fault["message"]
    cloud.db.write(instances.mark_deleted, servers[0])
    assert servers[0] not in {who for held in _held(cloud).values() for who in held.values()}
    again = cloud.active(flavor=GPU)
    assert told[-1] == ("spawn", cloud.get(again).host, [d["address"] for d in cloud.get(again).pci_devices])


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
@pytest.mark.parametrize(("before", "after"), [(GPU, BIGGER), (PLAIN, GPU), (GPU, PLAIN)])
def test_a_resize_holds_both_until_the_users_word(cloud, told, word, before, after):
    server = cloud.active(flavor=before)
    old = cloud.get(server).host
    was = _held(cloud)
    cloud.operate(server, "resize", {"flavor": after.to_primitive()})
    new = cloud.wait(server, states.RESIZED).host
    assert new == _other(old)
    move, wanted = _move(cloud), ["0000:01:00.0", "0000:02:00.0"][:sum(r["count"] for r in after.pci_requests)]
    both = {old: dict.fromkeys(was.get(old, ()), move.uuid), new: dict.fromkeys(wanted, server)}
    now = {host: held for host, held in both.items() if held}
    assert _held(cloud) == now
    assert told[-1] == ("finish_move", new, wanted)
    cloud.operate(server, word, {"migration_id": move.id}, host=old if word == "confirmResize" else None)
    cloud.wait(server, states.ACTIVE)
    if word == "confirmResize":
        assert _held(cloud) == ({new: now[new]} if wanted else {})
    else:
        assert told[-1] == ("bring_back", old, list(was.get(old, ())))
        assert _held(cloud) == was


def test_an_evacuated_server_gets_those_of_its_new_host(cloud, told):
    server = cloud.active(flavor=GPU)
    old = cloud.get(server).host
    cloud.end_host(old)
    cloud.silence(old)
    asked = {"host": None, "force": False, "stopped": False}
    action_id = cloud.db.write(api._begin, cloud.context, server, "evacuate", asked, cloud.conf.conductor.lease_seconds,
                               evacuation._end_others)[0]
    cloud.rpc.run_action(admin_context(), [action_id])
    cloud.wait_action(action_id, objects.DONE)
    assert told[-1] == ("spawn", _other(old), ["0000:01:00.0"])
    assert _held(cloud) == {_other(old): {"0000:01:00.0": server}}


def test_a_build_that_fails_takes_those_of_the_next_host(cloud, told):
    cloud.fail("spawn@h1")
    for server in cloud.build(2, flavor=GPU):
        cloud.wait(server, states.ACTIVE)
    assert {host: len(held) for host, held in _held(cloud).items()} == {"h2": 2}
    assert sorted(e for e in told if e[1] == "h2") == [("spawn", "h2", [f"0000:0{n}:00.0"]) for n in (1, 2)]


def test_a_server_that_is_deleted_while_it_is_built_keeps_its_device_until_its_guest_is_gone(cloud, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "spawn")
    [server] = cloud.build(flavor=GPU)
    cloud.wait_for(held.is_set)
    host = cloud.get(server).host
    action_id = cloud.operate(server, "delete")
    cloud.sweep()
    cloud.conductor.reconciler.run()
    assert _held(cloud) == {host: {"0000:01:00.0": server}}
    go_on.set()
    cloud.wait_action(action_id, objects.DONE)
    assert cloud.guests(host) == _held(cloud) == {}


def test_the_reconciler_gives_back_the_devices_of_orphaned_claims_only(cloud):
    """One that a late scheduler has made, for example."""
    server = cloud.active(flavor=GPU)
    host, nodes = cloud.get(server).host, models.compute_nodes
    was = _held(cloud)
    with cloud.db.read() as conn:
        other = conn.scalar(sa.select(nodes.c.id).where(nodes.c.host == _other(host)))
    assert cloud.db.write(claims.claim_many, [claims.Claim.of(server, other, BIGGER)]) == {server}
    assert {h: len(held) for h, held in _held(cloud).items()} == {host: 1, _other(host): 2}
    cloud.run(sa.update(models.allocations).values(created_at=units.utcnow() - HOUR))
    cloud.conductor.reconciler.run()
    assert _held(cloud) == was
    assert cloud.claimed() == {host: {server}}


def test_a_server_whose_claim_was_lost_gets_a_device_with_it_again(cloud):
    server = cloud.active(flavor=GPU)
    was = _held(cloud)
    cloud.db.write(claims.release, server)
    assert _held(cloud) == {}
    cloud.conductor.reconciler.run()
    assert _held(cloud) == was
    cloud.db.write(claims.release, server)
    assert _held(cloud) == {}
