"""MariaDB and PostgreSQL for real: migrations from empty, and the conditional updates that leases and claims stand on."""
from __future__ import annotations

import datetime
import subprocess
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from nova_lite import conf as conf_module
from nova_lite import status, units
from nova_lite.conductor.bus_health import BusHealth
from nova_lite.conductor.heartbeats import Heartbeats
from nova_lite.conductor.sweeper import Sweeper
from nova_lite.context import RequestContext
from nova_lite.db import (
    actions,
    aggregates,
    capacity,
    claims,
    clock,
    core,
    instances,
    migration,
    models,
    pci_devices,
    periodic_tasks,
    services,
)
from nova_lite.db.core import Database
from nova_lite.objects import states
from nova_lite.objects.action import COMPUTE
from nova_lite.objects.hardware import pci
from nova_lite.units import utcnow
from tests.support.engines import MariaDB, PostgreSQL
from tests.support.process import BIN
from tests.support.servers import add_server
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture(scope="module", params=[MariaDB, PostgreSQL], ids=["mariadb", "postgresql"])
def engine(request, tmp_path_factory):
    made = request.param(tmp_path_factory.mktemp(request.param.__name__))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def url(engine):
    return engine.new_database()


@pytest.fixture
def db(url):
    conf = conf_module.load([], config_files=[], database__connection=url, database__max_pool_size=20)
    migration.sync(conf)
    made = Database(conf)
    yield made
    made.dispose()


def test_sync_by_several_processes_at_once_makes_the_schema_of_the_models(url, tmp_path):
    config = tmp_path / "conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n")
    command = [str(BIN / "nova-lite-manage"), "--config-file", str(config), "db", "sync"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(3)]
    outputs = [child.communicate(timeout=120)[0].decode() for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], outputs
    conf = conf_module.load([], config_files=[str(config)])
    current, head = migration.version(conf)
    assert current == head
    db = Database(conf)
    with db.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        assert compare_metadata(context, models.metadata) == []
    db.dispose()


def test_the_upgrade_check_compares_the_processes_with_the_server_of_the_database(url, db):
    def told(pool: int) -> tuple[str, str]:
        return dict(status.CHECKS)["Scale"](conf_module.load([], config_files=[], database__connection=url,
                                                             database__max_pool_size=pool))
    assert told(10)[0] == status.SUCCESS
    result, words = told(1000)
    assert result == status.WARNING
    assert "2 processes may open 1000 each" in words    # of the API, which do not report
    with db.read() as connection:
        found = capacity.read(connection)
    assert found is not None
    assert 0 < found.data_bytes < 1 << 30
    assert found.cache_bytes >= 8 << 20


def test_a_deadlock_within_a_savepoint_is_tried_again(db):
    servers = [add_server(db).uuid for _ in range(2)]
    both_have_one, tries = threading.Barrier(2), Counter()

    def change(connection: sa.Connection, name: str, first: str, second: str) -> None:
        tries[name] += 1
        instances.update(connection, first, {"display_description": name})
        if tries[name] == 1:
            both_have_one.wait(10)
        with connection.begin_nested():
            instances.update(connection, second, {"display_description": name})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(db.write, [change] * 2, "ab", servers, reversed(servers)))
    assert sorted(tries.values()) == [1, 2]
    with db.read() as connection:
        assert len({instances.get(connection, server).display_description for server in servers}) == 1


def _node(connection: sa.Connection) -> int:
    now = utcnow()
    return connection.execute(sa.insert(models.compute_nodes).values(
        uuid=str(uuid.uuid4()), host="h", hypervisor_hostname="h", hypervisor_type="QEMU", hypervisor_version=1, vcpus=4,
        memory_mb=1000, local_gb=1000, cpu_allocation_ratio=4.0, created_at=now, updated_at=now)).inserted_primary_key[0]


def test_free_devices_of_a_node_are_counted(db):
    card = pci.PciDevice("0000:04:00.0", "8086", "1572", pci.PHYSICAL)
    parts = [pci.PciDevice(f"0000:04:02.{n}", "8086", "154c", pci.VIRTUAL, parent=card.address) for n in range(2)]
    whole = [pci.PciDevice(f"0000:05:00.{n}", "10de", "1eb8") for n in range(3)]
    node_id = db.write(_node)
    db.write(pci_devices.report, node_id, [device.to_primitive() for device in (card, *parts, *whole)])
    asked = [{"alias": "nic", "count": 1, "specs": [{"dev_type": pci.VIRTUAL}]},
             {"alias": "gpu", "count": 2, "specs": [{"vendor_id": "10de"}]}]
    assert db.write(claims.claim_many, [claims.Claim(str(uuid.uuid4()), node_id, 1, 1, 1, asked)])
    with db.read() as conn:
        assert pci_devices.free(conn) == {pci.Pool("8086", "154c", pci.VIRTUAL): [(node_id, 1)],
                                          pci.Pool("10de", "1eb8", pci.STANDARD): [(node_id, 1)]}


def test_claims_of_many_schedulers_at_once_never_exceed_the_node(db):
    node_id = db.write(_node)
    barrier = threading.Barrier(8)

    def work(_: int) -> int:
        barrier.wait()
        return sum(db.write(claims.claim, str(uuid.uuid4()), node_id, 1, 10, 1) for _ in range(5))
    with ThreadPoolExecutor(8) as pool:
        granted = sum(pool.map(work, range(8)))
    assert granted == 16        # 4 CPUs with a ratio of 4, though 40 were asked for
    with db.read() as connection:
        row = connection.execute(sa.select(models.compute_nodes)).mappings().one()
        assert (row["vcpus_used"], row["instances_used"]) == (16, 16)
        assert claims.wrong_nodes(connection) == []
        held = connection.execute(sa.select(models.allocations.c.instance_uuid)).scalars().all()
    assert len(held) == 16
    for instance in held:
        db.write(claims.release, instance)
        db.write(claims.release, instance)
    with db.read() as connection:
        row = connection.execute(sa.select(models.compute_nodes)).mappings().one()
        assert (row["vcpus_used"], row["memory_mb_used"], row["local_gb_used"], row["instances_used"]) == (0, 0, 0, 0)
        assert claims.wrong_nodes(connection) == []
    db.write(lambda connection: connection.execute(sa.update(models.compute_nodes).values(local_gb_used=1)))
    with db.read() as connection:
        assert claims.wrong_nodes(connection) == [node_id]


def test_of_many_workers_one_gets_an_action(db):
    context = RequestContext(user_id="u", project_id="p")
    ids = db.write(actions.create, context, "stop", [str(uuid.uuid4()) for _ in range(10)], 30, COMPUTE, "h")
    barrier = threading.Barrier(6)

    def work(number: int) -> list[int]:
        barrier.wait()
        return [a.id for a in db.write(actions.claim, ids, f"worker-{number}", 30, COMPUTE, "h")]
    with ThreadPoolExecutor(6) as pool:
        taken = [i for got in pool.map(work, range(6)) for i in got]
    assert sorted(taken) == sorted(ids)


def test_of_many_conductors_one_runs_a_task(db):
    barrier = threading.Barrier(6)

    def work(number: int) -> list[bool]:
        barrier.wait()      # even the rows are made at once
        db.write(periodic_tasks.ensure, ["sweep", "purge"])
        return [db.write(periodic_tasks.take, name, f"c{number}", 30) for name in ("sweep", "purge")]
    for _ in range(3):
        with ThreadPoolExecutor(6) as pool:
            taken = list(pool.map(work, range(6)))
        assert [sum(column) for column in zip(*taken, strict=True)] == [1, 1]
        with db.read() as connection:
            owners = set(connection.scalars(sa.select(models.periodic_tasks.c.owner)))
        for owner in owners:
            db.write(periodic_tasks.release, owner)


def test_zones_are_found_by_the_hosts_that_are_in_them(db):
    def add(connection: sa.Connection) -> None:
        for host, disabled in (("h1", False), ("h2", True), ("h3", False)):
            connection.execute(sa.insert(models.services).values(
                uuid=str(uuid.uuid4()), host=host, binary=services.COMPUTE, disabled=disabled, forced_down=False,
                last_seen_at=utcnow(), created_at=utcnow()))
        for name, zone, members in (("a", "closed", ["h2"]), ("b", "Zürich 🏔", ["h3"]), ("c", "Zürich 🏔", ["h3"]),
                                    ("d", None, ["h1"])):
            number = aggregates.create(connection, name, zone)["id"]
            for host in members:
                aggregates.add_host(connection, number, host)
    db.write(add)
    with db.read() as connection:
        assert services.zones(connection, "nova") == {"nova": True, "closed": False, "Zürich 🏔": True}
        takes = [services.zone_takes_servers(connection, zone, "nova")
                 for zone in ("nova", "closed", "Zürich 🏔", "zürich 🏔", "Nova", "nova ")]
        assert takes == [True, False, True, False, False, False]
        assert [aggregates.zone_of(connection, host) for host in ("h1", "h2", "h3", None)] == [None, "closed", "Zürich 🏔", None]


def test_a_host_that_the_database_refuses_costs_the_others_of_its_batch_nothing(db):
    context = RequestContext(user_id="u", project_id="p")
    ids = db.write(actions.create, context, "stop", [str(uuid.uuid4()) for _ in range(4)], -1, COMPUTE, "h0")
    held = db.write(actions.claim, ids[:2], "owner-0", -1, COMPUTE, "h0")
    names = [f"h{n}" for n in range(8)] + ["x" * 300]
    takers = [Heartbeats(db.conf, db, lambda: 3) for _conductor in range(2)]

    def report(number: int) -> object:
        name = names[number % len(names)]
        values = {"host": name, "owner": "owner-0", "actions": [a.id for a in held] if name == "h0" else []}
        try:
            return takers[number % 2].take(values)
        except sa.exc.DataError as error:
            return error
    for _time in range(3):
        with ThreadPoolExecutor(18) as pool:
            answers = list(pool.map(report, range(18)))
        for name, answer in zip(names * 2, answers, strict=True):
            if len(name) > 255:
                assert isinstance(answer, sa.exc.DataError)
            else:
                assert answer == {"actions": ids[2:] if name == "h0" else []}
    with db.read() as connection:
        assert {row["host"] for row in services.list_all(connection)} == set(names[:8])
    assert [action.id for action in db.write(actions.expired)] == ids[2:]


@pytest.mark.parametrize("engine", [MariaDB], ids=["mariadb"], indirect=True)
def test_a_server_that_falls_silent_is_left_for_the_one_that_answers(url, monkeypatch):
    monkeypatch.setattr(core, "ANSWER_SECONDS", 3)
    made = sa.make_url(url)
    assert made.port is not None
    proxy = TcpProxy(made.port)
    through = made.set(port=proxy.port).render_as_string(hide_password=False)
    db = Database(conf_module.load([], config_files=[], database__connection=through))

    def ask(connection: sa.Connection) -> int:
        return connection.execute(sa.select(sa.literal(7))).scalar_one()
    assert db.write(ask) == 7
    proxy.silence()
    with ThreadPoolExecutor(1) as pool:
        try:
            assert pool.submit(db.write, ask).result(timeout=60) == 7
        finally:
            proxy.close()
    db.dispose()


def test_servers_that_no_worker_is_left_for_are_found_once(db):
    both, moving, idle = add_server(db), add_server(db), add_server(db)
    long_ago = utcnow() - datetime.timedelta(hours=1)
    for server, vm_state, task_state in ((both, states.BUILDING, states.SPAWNING), (moving, states.ACTIVE, states.MIGRATING),
                                         (idle, states.ACTIVE, None)):
        db.write(instances.update, server.uuid, {"vm_state": vm_state, "task_state": task_state, "updated_at": long_ago})
    sweeper = Sweeper(db.conf, db, BusHealth(db.conf, db, lambda _seconds: None))
    assert [sweeper.settle_orphans() for _time in range(2)] == [2, 0]
    with db.read() as connection:
        found = instances.get_many(connection, [both.uuid, moving.uuid, idle.uuid])
    assert {uuid: (one.vm_state, one.task_state) for uuid, one in found.items()} == {
        both.uuid: (states.ERROR, None), moving.uuid: (states.ERROR, None), idle.uuid: (states.ACTIVE, None)}


@pytest.mark.parametrize("wrong", [-3600, 3600])
def test_a_machine_with_a_wrong_clock_takes_nobodys_work_and_loses_none(db, monkeypatch, wrong):
    def wrong_clock(yes: bool) -> None:
        monkeypatch.setattr(units, "utcnow", lambda: utcnow() + datetime.timedelta(seconds=wrong if yes else 0))
    servers = [str(uuid.uuid4()) for _ in range(4)]
    ids = db.write(actions.create, RequestContext(user_id="u", project_id="p"), "stop", servers, 1000, COMPUTE, "h")
    db.conf.set_override("service_down_time", 1000, group="compute")
    bus_health = BusHealth(db.conf, db, lambda _seconds: None)
    bus_health.since -= 3600
    sweeper = Sweeper(db.conf, db, bus_health)
    for writer, reader in ((True, False), (False, True)):
        wrong_clock(writer)
        assert len(db.write(actions.claim, ids, "worker", 1000, COMPUTE, "h")) == 4
        assert db.write(actions.renew, "worker", ids[:2], 1000) == 2
        db.write(actions.hand_over, ids[2:3], 1000, COMPUTE, "h")
        db.write(actions.release, ids[3:], 1000, died=False)
        db.write(services.heard_from, "h", services.COMPUTE)
        wrong_clock(reader)
        assert db.write(actions.expired) == []
        assert db.write(actions.claim, ids[:2], "another", 1000, COMPUTE, "h") == []
        assert db.write(lambda conn: [actions.is_free_for(conn, one, "another") for one in actions.lock(conn, ids[:2]).values()]
                        ) == [False, False]
        with db.read() as connection:
            assert 0 < sweeper._alive_hosts(connection, {"h"})["h"].seconds < 1000
            assert services.is_up(services.get_by_host(connection, "h", services.COMPUTE), 1000, clock.read(connection))
            assert abs(clock.ahead(connection)) >= (3599 if reader else 0)
        db.write(actions.release, ids, 1000, died=False)
    wrong_clock(False)
    assert db.write(actions.renew, "worker", ids, 1000) == 0
    db.write(actions.claim, ids, "worker", -1, COMPUTE, "h")
    assert [action.id for action in db.write(actions.expired)] == ids       # leases end all the same
