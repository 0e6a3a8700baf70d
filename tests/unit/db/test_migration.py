"""The migrated schema is the one of models.py, and two migrations at once do no harm."""
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from nova_lite import conf as nova_conf
from nova_lite.context import admin_context
from nova_lite.db import actions, cloud, core, migration, models, networks, security_groups
from tests.support.servers import add_server
from tests.unit.db.databases import URLS, empty_database


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def conf(request, tmp_path):
    with empty_database(request.param, tmp_path, migrated=False) as url:
        yield nova_conf.load([], config_files=[], database__connection=url)


def test_migrated_schema_is_the_one_of_the_models(conf):
    migration.sync(conf)
    engine = core.make_engine(conf.database.connection)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, models.metadata) == []
        names = set(sa.inspect(connection).get_table_names())
    engine.dispose()
    assert names == set(models.metadata.tables) | {"alembic_version"}


def test_version_before_and_after(conf):
    current, head = migration.version(conf)
    assert current is None
    assert head is not None
    migration.sync(conf)
    assert migration.version(conf) == (head, head)
    migration.sync(conf)
    assert migration.version(conf) == (head, head)


def test_a_migration_that_was_killed_half_way_is_finished_by_the_next(conf):
    migration.sync(conf)
    engine = core.make_engine(conf.database.connection)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
        connection.execute(sa.text("DROP TABLE ports"))
        models.flavors.drop(connection)
    migration.sync(conf)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), models.metadata) == []
    engine.dispose()


def test_servers_of_old_have_a_time_of_change_too(conf):
    migration.sync(conf)
    database = core.Database(conf)
    old = add_server(database)
    database.write(lambda c: c.execute(sa.update(models.instances).values(updated_at=None)))
    database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0006'"))
    migration.sync(conf)
    with database.read() as connection:
        [(created, updated)] = connection.execute(sa.select(models.instances.c.created_at, models.instances.c.updated_at)).all()
    database.dispose()
    assert created == updated is not None, old.uuid


def test_a_cloud_of_old_gets_one_id_and_keeps_it(conf):
    migration.sync(conf)
    database = core.Database(conf)
    database.write(lambda c: models.cloud.drop(c))
    found = set()
    for _ in range(2):      # as if the first run had been killed at its end
        database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0010'"))
        migration.sync(conf)
        with database.read() as connection:
            found.add(cloud.find_id(connection))
    database.dispose()
    [made] = found
    assert uuid.UUID(made)


def test_local_disks_of_old_keep_the_bus_and_file_system_that_they_have(conf):
    migration.sync(conf)
    database = core.Database(conf)
    local = {"id": "a", "source_type": "blank", "destination_type": "local", "disk_bus": "ide", "guest_format": "xfs"}
    swap, volume = {**local, "id": "b", "guest_format": "swap"}, {**local, "id": "c", "destination_type": "volume"}
    for devices in (None, [], [local, swap, volume]):
        one = models.instances.c.uuid == add_server(database).uuid
        database.write(lambda c, one=one, devices=devices: c.execute(
            sa.update(models.instances).where(one).values(block_devices=devices)))
    for _ in range(2):      # as if the first run had been killed at its end
        database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0012'"))
        migration.sync(conf)
        with database.read() as connection:
            found = connection.execute(sa.select(models.instances.c.block_devices).order_by(models.instances.c.id)).scalars()
            assert [*found] == [None, [], [
                {**local, "disk_bus": None, "guest_format": None}, {**swap, "disk_bus": None}, volume]]
    database.dispose()


OLDER_ACTIONS = [       # the arguments, and what becomes of them: verb and step
    ({}, (None, None)),     # done at once: lock, unlock ...
    ({"verb": "stop"}, ("stop", None)),
    ({"verb": "live_migrate", "step": "undo", "error": "no"}, ("live_migrate", "undo")),
    ({"verb": "resize", "undo": "no disk"}, ("resize", "undo")),
    ({"verb": "revertResize", "at_source": True}, ("revertResize", "return")),
]


@pytest.mark.parametrize("missing", [["verb", "step"], ["step"], []])
def test_actions_of_old_have_their_verb_and_step_in_columns(conf, missing):
    """``missing``: the columns that a killed run has not made."""
    migration.sync(conf)
    database, table = core.Database(conf), models.instance_actions
    for arguments, _ in OLDER_ACTIONS:
        one = table.c.id == database.write(actions.record, admin_context(), "lock", str(uuid.uuid4()))
        database.write(lambda c, one=one, given=arguments: c.execute(sa.update(table).where(one).values(arguments=given)))
    for column in missing:
        database.write(lambda c, column=column: c.exec_driver_sql(f"ALTER TABLE instance_actions DROP COLUMN {column}"))
    for _ in range(2):      # as if the first run had been killed at its end
        database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0013'"))
        migration.sync(conf)
        with database.read() as connection:
            found = connection.execute(sa.select(table.c.verb, table.c.step).order_by(table.c.id)).all()
        assert [tuple(row) for row in found] == [position for _, position in OLDER_ACTIONS]
    database.dispose()


def test_indexes_that_a_killed_run_has_not_made_are_made(conf):
    migration.sync(conf)
    engine = core.make_engine(conf.database.connection)
    indexes = {index.name: index for index in models.instances.indexes}
    with engine.begin() as connection:
        indexes["ix_instances_vm_state"].drop(connection)
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0015'")
    migration.sync(conf)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), models.metadata) == []
    engine.dispose()


def test_the_addresses_of_older_servers_are_found_too(conf):
    migration.sync(conf)
    database, table = core.Database(conf), models.instances
    nics = [{"id": "v", "fixed_ips": [{"address": "10.0.0.3", "version": 4}, {"address": "fd00::3", "version": 6}]}]
    for info in (nics, []):
        one = table.c.uuid == add_server(database).uuid
        database.write(lambda c, one=one, info=info: c.execute(
            sa.update(table).where(one).values(network_info=info, addresses="*")))
    for _ in range(2):      # as if the first run had been killed at its end
        database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0017'"))
        migration.sync(conf)
        with database.read() as connection:
            found = connection.execute(sa.select(table.c.addresses).order_by(table.c.id)).scalars().all()
        assert found == [" 10.0.0.3 fd00::3 ", ""]
    database.dispose()


def test_ports_of_old_go_on_letting_everything_in(conf):
    migration.sync(conf)
    database = core.Database(conf)
    network = database.write(networks.create_network, name="n", cidr="10.1.0.0/24")
    port = database.write(networks.create_port, network["uuid"], "p")["uuid"]
    new = (models.port_security_groups, models.security_group_rules, models.security_groups)
    for table in new:
        database.write(lambda c, table=table: table.drop(c))
    for _ in range(2):      # as if the first run had been killed at its end
        database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0008'"))
        migration.sync(conf)
    with database.read() as connection:
        [group] = security_groups.list_groups(connection, "p")
        assert networks.get_port(connection, port)["security_groups"] == [group["uuid"]]
    assert group["uuid"] == database.write(security_groups.ensure_default, "p")
    assert [(r["direction"], r["ethertype"], r["remote_group_uuid"], r["remote_cidr"]) for r in group["rules"]] == [
        (direction, version, None, None) for direction in ("egress", "ingress") for version in ("IPv4", "IPv6")]
    database.dispose()


def test_processes_that_sync_at_the_same_time_all_succeed(conf):
    script = ("import sys; from nova_lite import conf; from nova_lite.db import migration; "
              "migration.sync(conf.load([], config_files=[], database__connection=sys.argv[1]))")
    running = [subprocess.Popen([sys.executable, "-c", script, conf.database.connection], stderr=subprocess.PIPE, text=True,
                                cwd=Path(__file__).parents[3]) for _ in range(3)]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    current, head = migration.version(conf)
    assert current == head
