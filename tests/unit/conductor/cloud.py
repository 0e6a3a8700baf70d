"""Conductor, scheduler and compute hosts with the fake driver in one process: real managers, RPC in the process, SQLite.

No loop runs by itself: a test says when the sweeper looks, when a host reports, which message is lost, and which worker or
host has been silent for too long (:meth:`Cloud.expire`, :meth:`Cloud.silence` put the time of the last sign of life back).
"""
import datetime
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import rpc, units
from nova_lite.compute.api import base as api
from nova_lite.compute.manager import ComputeManager
from nova_lite.conductor.manager import ConductorManager
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, core, instances, models, secret_keys, services
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.rpc import sender
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.scheduler.manager import SchedulerManager
from tests.support.clock import FastClock
from tests.unit.db.databases import make_tables

FLAVOR = Flavor(flavorid="1", name="small", vcpus=1, memory_mb=1024, root_gb=10)
HOUR = datetime.timedelta(hours=1)


class Cloud:
    """Hosts are added by :meth:`add_host`; servers by :meth:`create`, whose action is cast by :meth:`build`."""

    def __init__(self, directory: Path, config="", **options):
        file = directory / "nova-lite.conf"
        # a bus of its own: messages that nobody took must not reach the next test
        file.write_text(f"[DEFAULT]\ntransport_url = in-process:///{uuid.uuid4()}\n{config}")
        self.conf = nova_conf.load([], config_files=[str(file)], **{
            "state_path": str(directory), "host": "control", "database__connection": f"sqlite:///{directory}/nova.sqlite",
            "compute__driver": "fake", "network__driver": "null", **options})
        make_tables(self.conf.database.connection)
        secret_keys.ensure(self.conf)
        self.clock = FastClock()
        self.db = core.Database(self.conf)
        self.transport = rpc.get_transport(self.conf)
        self._servers, self._managers = [], []
        self.conductor = self._serve(rpc.CONDUCTOR, "conductor-1", ConductorManager(self.conf, self.transport, self.clock))
        self.conductor.bus_health.since -= HOUR.total_seconds()
        self.scheduler = self._serve(rpc.SCHEDULER, "scheduler-1", SchedulerManager(self.conf, self.transport))
        self.rpc = ConductorAPI(self.transport, sender.of_control(self.conf))
        self.hosts = {}
        self.context = RequestContext(user_id="u", project_id="p", overwrite=False)

    def _serve(self, topic, name, manager):
        manager.start()
        server = rpc.get_server(self.transport, topic, name, manager.endpoints)
        server.start()
        self._servers.append(server)
        self._managers.append(manager)
        return manager

    def close(self):
        # as operators do it: computes end what they do while there is a conductor to tell
        parts = list(zip(self._servers, self._managers, strict=True))
        for some in (parts[2:], parts[:2]):
            for server, _ in some:
                server.stop()
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda part: part[0].wait(), some))
                list(pool.map(lambda part: part[1].stop(), some))
        self.transport.cleanup()
        self.db.dispose()

    # hosts ----------------------------------------------------------------------------------------------------------
    def add_host(self, name):
        """A compute daemon that has recovered and reported once."""
        manager = self.hosts[name] = self._serve(
            rpc.COMPUTE, name, ComputeManager(self.conf, self.transport, name, self.clock))
        assert manager._ready.wait(10)
        self.report(name)
        return manager

    def end_host(self, name):
        """The daemon of a host ends; its guests run on when ``[fake] state_file`` keeps them."""
        manager = self.hosts.pop(name)
        place = self._managers.index(manager)
        server = self._servers.pop(place)
        self._managers.pop(place)
        server.stop()
        server.wait()
        manager.stop()

    def sync(self, name):
        """The host compares its guests with its servers, and tells what it finds."""
        self.hosts[name]._sync_power_states()

    def report(self, name):
        """One heartbeat."""
        self.hosts[name]._heartbeat()

    def silence(self, host, hours=1):
        """Nobody has heard of the host for so long, though a conductor listened."""
        table = models.services
        self.db.write(services.listened, self.conf.host, hours * HOUR.total_seconds(), 0)
        self.run(sa.update(table).where(table.c.host == host).values(last_seen_at=units.utcnow() - hours * HOUR))

    def force_down(self, host):
        """An admin says that the host is dead."""
        table = models.services
        self.run(sa.update(table).where(table.c.host == host).values(forced_down=True))

    def guests(self, host):
        return self.hosts[host].host.driver.power_states()

    def fail(self, *rules):
        self.conf.set_override("fail", list(rules), group="fake")

    def hold(self, monkeypatch, operation):
        """The first such operation of a hypervisor sets one event and waits for another: (held, go on)."""
        lock, held, go_on = threading.Lock(), threading.Event(), threading.Event()

        def hold(asked, instance, act):
            if asked == operation and lock.acquire(blocking=False):
                held.set()
                assert go_on.wait(120)
            act(asked, instance)
        for manager in self.hosts.values():
            driver = getattr(manager.host.driver, "_real", manager.host.driver)
            for part in (driver, driver.live):
                monkeypatch.setattr(part, "_act", partial(hold, act=part._act))
        return held, go_on

    def delay(self, seconds):
        self.conf.set_override("delay", seconds, group="fake")

    # servers --------------------------------------------------------------------------------------------------------
    def create(self, count=1, **values):
        """What POST /servers writes: [(uuid, action id)]. The message is lost unless somebody sends it."""
        arguments = values.pop("arguments", {})
        context = RequestContext(user_id="u", project_id="p", overwrite=False)

        def write(conn):
            chosen = [str(uuid.uuid4()) for _ in range(count)]
            instances.create_many(conn, [{"uuid": one, "project_id": "p", "user_id": "u", "display_name": f"s{n}",
                                          "flavor": FLAVOR, "vm_state": states.BUILDING, "task_state": states.SCHEDULING,
                                          "network_request": "none", **values} for n, one in enumerate(chosen)])
            ids = actions.create(conn, context, "build", chosen, self.conf.conductor.lease_seconds, objects.CONDUCTOR,
                                 arguments=arguments)
            return list(zip(chosen, ids, strict=True))
        return self.db.write(write)

    def build(self, count=1, **values):
        """Create servers and send the message; returns their uuids."""
        made = self.create(count, **values)
        self.rpc.schedule_and_build_instances(admin_context(), [action_id for _, action_id in made])
        return [one for one, _ in made]

    def active(self, **values):
        """One server that has been built."""
        [one] = self.build(**values)
        self.wait(one, states.ACTIVE)
        return one

    def begin(self, server, verb, arguments=None, host=None):
        """What the API writes for an operation; returns the action's id. No message is sent."""
        prepare = (lambda _conn, _server: api.Prepared(host=host)) if host else None
        return self.db.write(api._begin, self.context, server, verb, arguments or {}, self.conf.conductor.lease_seconds,
                             prepare)[0]

    def operate(self, server, verb, arguments=None, host=None):
        """Begin an operation and send its message."""
        action_id = self.begin(server, verb, arguments, host)
        action = self.action(action_id)
        if action.stage == objects.CONDUCTOR:
            self.rpc.run_action(admin_context(), [action_id])
        else:
            self.conductor.compute.wake(admin_context(), action.host, [action_id])
        return action_id

    def get(self, server):
        with self.db.read() as conn:
            return instances.get(conn, server, deleted=True)

    def action(self, action_id):
        with self.db.read() as conn:
            return actions.get(conn, action_id)

    def set(self, server, **values):
        self.db.write(instances.update, server, values)

    def claim(self, action_id, host, owner):
        """A worker takes an action (and then does whatever the test says, mostly nothing)."""
        return self.rpc.claim_actions([action_id], host, owner)[0]

    def expire(self, *action_ids):
        """The workers of these actions (all open ones, when none is named) have been silent for an hour."""
        table = models.instance_actions
        query = sa.update(table).where(table.c.lease_until.is_not(None))
        if action_ids:
            query = query.where(table.c.id.in_(action_ids))
        self.run(query.values(lease_until=units.utcnow() - HOUR))

    def later(self, seconds):
        """Time passes for leases and signs of life: the sweeper sees what it would see ``seconds`` from now."""
        passed = datetime.timedelta(seconds=seconds)
        leases, seen = models.instance_actions.c.lease_until, models.services.c.last_seen_at
        for column in (leases, seen):
            rows = self.db.write(lambda conn, c=column: conn.execute(sa.select(c.table.c.id, c).where(c.is_not(None))).all())
            for number, moment in rows:
                self.run(sa.update(column.table).where(column.table.c.id == number).values({column.name: moment - passed}))

    def sweep(self):
        self.conductor._sweep()

    # looking --------------------------------------------------------------------------------------------------------
    def run(self, statement):
        return self.db.write(lambda conn: conn.execute(statement).rowcount)

    def wait_for(self, condition, timeout=60.0):
        began = time.monotonic()
        while not condition():
            waited = time.monotonic() - began
            assert waited < timeout, "timed out"
            time.sleep(min(0.05, 0.01 + waited / 10))       # each look takes time from what is waited for

    def wait(self, server, vm_state, timeout=60.0):
        """Wait until the server is idle in a state; returns it."""
        def found():
            shown.append(self.get(server))
            return (shown[-1].vm_state, shown[-1].task_state) == (vm_state, None)
        shown = []
        self.wait_for(found, timeout)
        return shown[-1]

    def wait_action(self, action_id, state, timeout=60.0):
        self.wait_for(lambda: self.action(action_id).state == state, timeout)
        return self.action(action_id)

    def age_moves(self, seconds):
        """The last change of all moves was so long ago."""
        table = models.migrations
        self.run(sa.update(table).values(updated_at=units.utcnow() - datetime.timedelta(seconds=seconds)))

    def holders(self):
        """host -> [(server or move that holds room there, vcpus)]; the sums of the nodes are checked on the way."""
        nodes, held = models.compute_nodes, models.allocations
        with self.db.read() as conn:
            rows = conn.execute(sa.select(nodes.c.host, nodes.c.instances_used, nodes.c.vcpus_used, held.c.instance_uuid,
                                          held.c.vcpus).outerjoin(held, held.c.compute_node_id == nodes.c.id)).all()
        found = {row.host: sorted((r.instance_uuid, r.vcpus) for r in rows if r.host == row.host and r.vcpus) for row in rows}
        for row in rows:
            assert (row.instances_used, row.vcpus_used) == (len(found[row.host]), sum(v for _, v in found[row.host]))
        return {host: holders for host, holders in found.items() if holders}

    def claimed(self):
        """host -> servers that hold room there; the sums of the nodes are checked on the way."""
        nodes, held = models.compute_nodes, models.allocations
        with self.db.read() as conn:
            rows = conn.execute(sa.select(nodes.c.host, nodes.c.instances_used, nodes.c.vcpus_used,
                                          held.c.instance_uuid).outerjoin(held, held.c.compute_node_id == nodes.c.id)).all()
        found = {row.host: {r.instance_uuid for r in rows if r.host == row.host} - {None} for row in rows}
        for row in rows:
            assert (row.instances_used, row.vcpus_used) == (len(found[row.host]), len(found[row.host]))
        return {host: servers for host, servers in found.items() if servers}
