"""PCI devices in the scheduler: hosts without are left out, and a device is never given to two."""
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import claims, models, pci_devices
from nova_lite.objects.hardware import pci
from nova_lite.scheduler.claims import Placer
from tests.unit.scheduler.hosts import spec, uuids


def _devices(*buses):
    return [pci.PciDevice(f"0000:{bus:02x}:00.0", "10de", "1eb8").to_primitive() for bus in buses]


def _asked(number=1):
    return [{"alias": "gpu", "count": number, "specs": [{"vendor_id": "10de"}]}]


def _spec(number=1):
    made = spec()
    made.flavor.pci_requests = _asked(number)
    return made


def _holders(cloud):
    """(host, address) -> who has it."""
    nodes, table = models.compute_nodes, models.pci_devices
    with cloud.db.read() as conn:
        return {(r.host, r.address): r.consumer for r in conn.execute(
            sa.select(nodes.c.host, table.c.address, table.c.consumer).join(nodes, nodes.c.id == table.c.compute_node_id))}


def _claim(cloud, server, node, number=1):
    return server in cloud.db.write(claims.claim_many, [claims.Claim(server, node, 1, 1, 1, _asked(number))])


def test_hosts_without_a_free_device_are_left_out_with_the_reason(cloud):
    for host, buses in (("h1", ()), ("h2", (1,)), ("h3", (1, 2))):
        cloud.add(host, pci_devices=_devices(*buses))
    placer, servers = Placer(cloud.conf, cloud.db), uuids(5)
    assert [s.host for s in placer.place(_spec(2), servers[:1])[servers[0]]] == ["h3"]
    assert [s.host for s in placer.place(_spec(1), servers[1:2])[servers[1]]] == ["h2"]
    with pytest.raises(exception.NoValidHost, match="3 hosts, PciPassthroughFilter left 0"):
        placer.place(_spec(1), servers[2:3])
    cloud.db.write(claims.release, servers[0])
    assert _holders(cloud) == {("h2", "0000:01:00.0"): servers[1], ("h3", "0000:01:00.0"): None, ("h3", "0000:02:00.0"): None}
    both = placer.place(_spec(1), servers[3:])      # of one request each sees what the one before it took
    assert {hosts[0].host for hosts in both.values()} == {"h3"}
    assert set(_holders(cloud).values()) == {servers[1], *servers[3:]}


def test_a_request_that_does_not_fit_takes_nothing(cloud):
    cloud.add("h1", pci_devices=_devices(1, 2))
    with pytest.raises(exception.NoValidHost, match=r"PciPassthroughFilter left 0 \(for server 3 of this request\)"):
        Placer(cloud.conf, cloud.db).place(_spec(1), uuids(3))
    assert set(_holders(cloud).values()) == {None}
    assert cloud.used() == cloud.allocated() == {"h1": (0, 0, 0, 0)}


def test_a_claim_without_its_device_is_none(cloud):
    node = cloud.add("h1", pci_devices=_devices(1))
    assert _claim(cloud, "a", node)
    assert _claim(cloud, "a", node)
    assert not _claim(cloud, "b", node)
    assert cloud.used() == cloud.allocated() == {"h1": (1, 1, 1, 1)}
    assert _holders(cloud) == {("h1", "0000:01:00.0"): "a"}


def test_what_a_server_holds_follows_its_claim(cloud):
    node, other = (cloud.add(host, pci_devices=_devices(1)) for host in ("h1", "h2"))
    assert _claim(cloud, "a", node)
    assert cloud.db.write(claims.rename, "a", "move") == 1
    assert _claim(cloud, "a", other)
    with cloud.db.read() as conn:
        assert pci_devices.held_by(conn, ["a", "move"]) == {
            "a": [{"address": "0000:01:00.0", "host": "h2", "consumer": "a"}],
            "move": [{"address": "0000:01:00.0", "host": "h1", "consumer": "move"}]}
    cloud.db.write(claims.release, "a", other)
    assert _holders(cloud) == {("h1", "0000:01:00.0"): "move", ("h2", "0000:01:00.0"): None}


def test_a_device_that_is_offered_no_more_stays_with_who_has_it(cloud):
    node = cloud.add("h1", pci_devices=_devices(1, 2))
    assert _claim(cloud, "a", node)
    cloud.add("h1", pci_devices=[])
    assert _holders(cloud) == {("h1", "0000:01:00.0"): "a"}
    assert not _claim(cloud, "b", node)
    cloud.db.write(claims.release, "a")
    assert not _claim(cloud, "b", node)
    cloud.add("h1", pci_devices=_devices(1, 3))
    assert _claim(cloud, "b", node, 2)


@pytest.mark.parametrize("has_part", [True, False])
def test_a_card_and_its_parts_are_not_shared_when_one_of_them_is_offered_no_more(cloud, has_part):
    card = pci.PciDevice("0000:04:00.0", "8086", "1572", pci.PHYSICAL).to_primitive()
    part = pci.PciDevice("0000:04:02.0", "8086", "154c", pci.VIRTUAL, parent=card["address"]).to_primitive()
    first, second = (part, card) if has_part else (card, part)
    asked = {device["address"]: [{"alias": "nic", "count": 1, "specs": [{"dev_type": device["dev_type"]}]}]
             for device in (first, second)}
    node = cloud.add("h1", pci_devices=[first])

    def claim(server, device):
        return server in cloud.db.write(claims.claim_many, [claims.Claim(server, node, 1, 1, 1, asked[device["address"]])])
    assert claim("a", first)
    cloud.add("h1", pci_devices=[second])
    assert not claim("b", second)
    cloud.db.write(claims.release, "a")
    assert claim("b", second)


def test_a_card_with_a_part_in_use_is_not_free_and_the_reverse(cloud):
    card = pci.PciDevice("0000:04:00.0", "8086", "1572", pci.PHYSICAL)
    parts = [pci.PciDevice(f"0000:04:02.{n}", "8086", "154c", pci.VIRTUAL, parent=card.address) for n in range(2)]
    node = cloud.add("h1", pci_devices=[device.to_primitive() for device in (card, *parts)])
    pools = {kind: pci.Pool("8086", product, kind) for product, kind in (("1572", pci.PHYSICAL), ("154c", pci.VIRTUAL))}

    def free():
        with cloud.db.read() as conn:
            return pci_devices.free(conn)
    assert free() == {pools[pci.PHYSICAL]: [(node, 1)], pools[pci.VIRTUAL]: [(node, 2)]}
    for kind, left in ((pci.VIRTUAL, {pools[pci.VIRTUAL]: [(node, 1)]}), (pci.PHYSICAL, {})):
        asked = [{"alias": "nic", "count": 1, "specs": [{"dev_type": kind}]}]
        assert cloud.db.write(claims.claim_many, [claims.Claim("a", node, 1, 1, 1, asked)]) == {"a"}
        assert free() == left
        cloud.db.write(claims.release, "a")


def test_two_names_for_one_device_need_two(cloud):
    for host, buses in (("h1", (1,)), ("h2", (1, 2, 3))):
        cloud.add(host, pci_devices=_devices(*buses))
    wanted, servers = _spec(), uuids(2)
    wanted.flavor.pci_requests = [{"alias": "exact", "count": 1, "specs": [{"vendor_id": "10de", "product_id": "1eb8"}]},
                                  {"alias": "any", "count": 1, "specs": [{"product_id": "ffff"}, {"vendor_id": "10de"}]}]
    placer = Placer(cloud.conf, cloud.db)
    assert [s.host for s in placer.place(wanted, servers[:1])[servers[0]]] == ["h2"]
    with pytest.raises(exception.NoValidHost, match="2 hosts, PciPassthroughFilter left 0"):
        placer.place(wanted, servers[1:])


def test_what_was_taken_since_the_look_is_not_taken_again(cloud, monkeypatch):
    """Should a database hold no lock: the write itself takes only what is free."""
    node = cloud.add("h1", pci_devices=_devices(1, 2))
    choose, looked = pci.choose, []

    def late(devices, asked):
        if not looked:
            looked.append(devices)
            return choose(devices, asked)
        return choose(looked[0], asked)
    monkeypatch.setattr(pci, "choose", late)
    assert _claim(cloud, "a", node)
    assert not _claim(cloud, "b", node, 2)
    assert _holders(cloud) == {("h1", "0000:01:00.0"): "a", ("h1", "0000:02:00.0"): None}
    assert cloud.used() == cloud.allocated() == {"h1": (1, 1, 1, 1)}


def test_a_claim_without_devices_asks_nothing_of_their_table(cloud):
    node, seen = cloud.add("h1", pci_devices=_devices(1)), []

    def note(_conn, _cursor, statement, *_rest):
        seen.append(statement)
    sa.event.listen(cloud.db.engine, "before_cursor_execute", note)
    assert cloud.db.write(claims.claim, "a", node, 1, 1, 1)
    assert cloud.db.write(claims.release, "a") == 1
    assert cloud.db.write(claims.claim_many, [claims.Claim(server, node, 1, 1, 1) for server in "bc"]) == {"b", "c"}
    sa.event.remove(cloud.db.engine, "before_cursor_execute", note)
    assert any("allocations" in statement for statement in seen)
    assert [s for s in seen if re.search("(FROM|INTO|UPDATE) pci_devices", s)] == []


def test_many_threads_never_share_a_device(cloud):
    nodes = [cloud.add(f"h{n}", pci_devices=_devices(1, 2, 3)) for n in range(2)]
    servers = uuids(20)
    jobs = [(server, nodes[n % 2], 1 + n % 2) for n, server in enumerate(servers)] * 2
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda job: _claim(cloud, *job), jobs))
    has = {server for (server, _, _), granted in zip(jobs, got, strict=True) if granted}
    holders = list(_holders(cloud).values())
    for server, _, number in jobs[:20]:
        assert holders.count(server) == (number if server in has else 0)
    assert cloud.used() == cloud.allocated()
    assert holders.count(None) <= 1     # of a host whose servers want two each
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda server: cloud.db.write(claims.release, server), servers * 2))
    assert set(_holders(cloud).values()) == {None}
