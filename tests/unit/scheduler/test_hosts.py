"""What hosts report, in the database and in the host table."""
import datetime
import json

import pytest
import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import aggregates, heartbeats, hosts, models
from nova_lite.scheduler import host_table
from nova_lite.scheduler.host_table import HostTable


def node(cloud):
    with cloud.db.read() as conn:
        return conn.execute(sa.select(models.compute_nodes)).mappings().one()


def test_a_report_without_news_writes_nothing(cloud):
    first = cloud.add("h1", traits=["A"])
    before = node(cloud)
    assert cloud.add("h1", traits=["A"]) == first
    assert node(cloud) == before
    assert cloud.add("h1", traits=["A"], memory_mb=1) == first
    after = node(cloud)
    assert (after["memory_mb"], after["uuid"]) == (1, before["uuid"])
    assert after["updated_at"] > before["updated_at"]


DEVICE = {"address": "0000:81:00.0", "vendor_id": "8086", "product_id": "1520", "dev_type": "type-PCI"}


@pytest.mark.parametrize(("news", "is_read_again"), [
    ({"uptime": "up 2 days"}, False), ({"host_ip": "10.0.0.9"}, False), ({"free_disk_gb": 7}, False),
    ({"disk_available_least": 3}, False), ({"cpu_info": {"model": "new"}}, False), ({"pci_devices": [DEVICE]}, False),
    ({"uptime": "up 2 days", "vcpus": 7}, True), ({"local_gb": 5}, True), ({"hypervisor_version": 2}, True),
    ({"traits": ["B"]}, True), ({"numa_topology": [{"id": 0}]}, True), ({"supported_instances": []}, True)])
def test_schedulers_read_a_row_again_when_a_report_changes_what_they_use(cloud, news, is_read_again):
    cloud.add("h1", traits=["A"], uptime="up 1 day", host_ip="10.0.0.1", free_disk_gb=9, disk_available_least=9)
    before = node(cloud)
    cloud.add("h1", **{"traits": ["A"], **news})
    after = node(cloud)
    assert {name: after[name] for name in news} == news
    assert (after["updated_at"] > before["updated_at"]) is is_read_again


@pytest.mark.parametrize("name", ["cpu", "ram", "disk"])
def test_schedulers_read_a_row_again_when_its_ratios_or_reserves_change(cloud, name):
    cloud.add("h1")
    inventory = {"hypervisor_hostname": "h1"}
    for ratios, reserved in (({name: 2.5}, {}), ({}, {{"cpu": "vcpus", "ram": "memory_mb", "disk": "local_gb"}[name]: 3})):
        before = node(cloud)
        cloud.db.write(hosts.upsert_node, "h1", inventory, ratios, reserved)
        assert node(cloud)["updated_at"] > before["updated_at"]


def test_reserved_and_ratios_are_stored_and_used_is_left_alone(cloud):
    cloud.add("h1")
    cloud.run(sa.update(models.compute_nodes).values(vcpus_used=3))
    cloud.db.write(hosts.upsert_node, "h1", {"hypervisor_hostname": "h1", "vcpus": 8, "unknown": 1, "vcpus_used": 0},
                   {"ram": 1.5}, {"memory_mb": 512})
    row = node(cloud)
    assert (row["vcpus"], row["vcpus_used"], row["ram_allocation_ratio"], row["reserved_memory_mb"]) == (8, 3, 1.5, 512)


def test_failed_builds_count_up_and_are_forgotten(cloud):
    cloud.add("h1")
    for _ in range(2):
        cloud.db.write(hosts.count_failed_build, "h1")
    cloud.db.write(heartbeats.count_io_ops, {"h1": 4})
    assert (node(cloud)["failed_builds"], node(cloud)["io_ops"]) == (2, 4)
    cloud.db.write(hosts.reset_failed_builds, "h1")
    before = node(cloud)
    assert before["failed_builds"] == 0
    cloud.db.write(hosts.reset_failed_builds, "h1")
    cloud.db.write(heartbeats.count_io_ops, {"h1": 4})
    assert node(cloud) == before


def test_the_table_reads_only_what_changed_and_old_snapshots_stay(cloud):
    table = HostTable(cloud.conf)
    for n in range(3):
        cloud.add(f"h{n}")
    with cloud.db.read() as conn:
        first = table.snapshot(conn)
    # a change that bears an old time is what nobody would see but a full read
    cloud.run(sa.text("UPDATE compute_nodes SET vcpus_used = 1, updated_at = '2020-01-01 00:00:00' WHERE host = 'h0'"))
    cloud.db.write(heartbeats.count_io_ops, {"h1": 7})
    with cloud.db.read() as conn:
        second = table.snapshot(conn)
    assert (first.io_ops.tolist(), first.vcpus_used.tolist()) == ([0, 0, 0], [0, 0, 0])
    assert (second.io_ops.tolist(), second.vcpus_used.tolist()) == ([0, 7, 0], [0, 0, 0])
    with cloud.db.read() as conn:
        assert table.snapshot(conn, full=True).vcpus_used.tolist() == [1, 0, 0]


def test_a_table_kept_by_changes_equals_one_read_anew(cloud, monkeypatch):
    table = HostTable(cloud.conf)
    seen_at_once = [
        lambda: cloud.add("h1"), lambda: cloud.add("h2", supported_instances=[["aarch64", "kvm", "hvm"]]),
        lambda: cloud.service("h1", disabled=True), lambda: cloud.add("h1", vcpus=3, hypervisor_version=1),
        lambda: cloud.db.write(aggregates.create, "x", "z"), lambda: cloud.db.write(aggregates.add_host, 1, "h2"),
        lambda: cloud.db.write(aggregates.remove_host, 1, "h2"), lambda: cloud.add("h3", node="other"),
        lambda: cloud.add("h2", supported_instances=[]), lambda: cloud.service("h3", forced_down=True),
        lambda: cloud.service("h3", forced_down=False)]
    seen_soon = [
        lambda: cloud.service("h2", last_seen_at=units.utcnow() - datetime.timedelta(seconds=31)),
        lambda: cloud.run(sa.update(models.services).values(last_seen_at=units.utcnow())),
        # by a machine whose clock is late
        lambda: cloud.run(sa.update(models.services).where(models.services.c.host == "h2").values(disabled=True)),
        lambda: cloud.run(sa.update(models.services).where(models.services.c.host == "h2").values(disabled=False)),
        lambda: cloud.run(sa.delete(models.compute_nodes).where(models.compute_nodes.c.host == "h1")),
        lambda: cloud.run(sa.delete(models.services).where(models.services.c.host == "h3"))]
    for step in seen_at_once + seen_soon:
        step()
        monkeypatch.setattr(host_table, "CHECK_INTERVAL", 0.0 if step in seen_soon else 60.0)
        with cloud.db.read() as conn:
            kept, anew = table.snapshot(conn), HostTable(cloud.conf).snapshot(conn)
        for name in ("hosts", "nodes", "zones", "supports"):
            assert getattr(kept, name) == getattr(anew, name)
        for name in ("vcpus", "vcpus_capacity", "hypervisor_version", "enabled", "up", "zone", "support"):
            assert getattr(kept, name).tolist() == getattr(anew, name).tolist()
        assert [(a.name, a.mask.tolist()) for a in kept.aggregates] == [(a.name, a.mask.tolist()) for a in anew.aggregates]


@pytest.mark.parametrize("reads", ["services_held_back", "compute_services", "nodes_changed"])
def test_a_table_whose_read_failed_is_complete_after_the_next(cloud, monkeypatch, reads):
    monkeypatch.setattr(host_table, "CHECK_INTERVAL", 0.0)
    cloud.add("h1"), cloud.add("h2")
    table = HostTable(cloud.conf)
    with cloud.db.read() as conn:
        table.snapshot(conn)
    cloud.service("h1", disabled=True)
    cloud.add("h2", vcpus=3)
    real = getattr(hosts, reads)

    def read_and_fail(*arguments):
        real(*arguments)
        raise OSError("the database went away")
    with cloud.db.read() as conn, monkeypatch.context() as broken:
        broken.setattr(hosts, reads, read_and_fail)
        with pytest.raises(OSError, match="went away"):
            table.snapshot(conn)
    with cloud.db.read() as conn:
        seen = table.snapshot(conn)
    assert (seen.enabled.tolist(), seen.vcpus.tolist()) == ([False, True], [16, 3])


def test_a_host_is_up_when_it_reports_and_is_not_declared_down(cloud):
    for host in ("h1", "h2", "h3", "h4"):
        cloud.add(host)
    cloud.service("h2", last_seen_at=units.utcnow() - datetime.timedelta(seconds=31))
    cloud.service("h3", forced_down=True)
    cloud.run(sa.delete(models.services).where(models.services.c.host == "h4"))     # while its last report was handled
    with cloud.db.read() as conn:
        seen = HostTable(cloud.conf).snapshot(conn)
    assert dict(zip(seen.hosts, zip(seen.up.tolist(), seen.enabled.tolist(), strict=True), strict=True)) == {
        "h1": (True, True), "h2": (False, True), "h3": (False, True), "h4": (False, False)}


def test_the_table_sees_numa_nodes_that_changed(cloud):
    one, two = [{"id": 0, "cpus": "0-3"}], [{"id": 0, "cpus": "0-3", "pinned": "0"}]
    for host in ("h1", "h2", "h3"):
        cloud.add(host, numa_topology=one)
    table = HostTable(cloud.conf)

    def told():
        with cloud.db.read() as conn:
            seen = table.snapshot(conn)
        return len(seen.numas), [json.loads(seen.numas[position]) for position in seen.numa]
    assert told() == (1, [one, one, one])
    cloud.add("h2", numa_topology=two)
    assert told() == (2, [one, two, one])
    cloud.add("h2", numa_topology=one)
    assert told() == (1, [one, one, one])
