"""The sweeper: finds open actions whose lease ran out, and gives each to a worker, or ends it with a reason.

One conductor sweeps (``periodic.py``). When two do, each skips the rows that the other one has locked.
"""
from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import NamedTuple

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations, units
from nova_lite.conductor import completion, move_completion
from nova_lite.conductor.bus_health import BusHealth
from nova_lite.conductor.cleanup import Cleanup
from nova_lite.conductor.tasks import live_migrate
from nova_lite.db import actions, clock, instances, models, services
from nova_lite.db.core import Database
from nova_lite.objects import action as objects
from nova_lite.objects import migration, states
from nova_lite.objects.action import Action
from nova_lite.operations import IfHostDies
from nova_lite.virt.live import REST_SECONDS

LOG = log.getLogger(__name__)
MARGIN = 2.0
AT_ONCE = 200       # servers without an action that one sweep settles
_WAIT_THEMSELVES = [row.action for row in operations.VERBS.values() if row.follows_guest]   # until the server is idle


class Life(NamedTuple):
    """What is known of a host that counts as alive."""

    seconds: float          # until it counts as dead without a further report
    has_reported: bool      # since this conductor receives reports without a break


class Sweep:
    """The results of one sweep: actions, by the cast that each needs."""

    def __init__(self) -> None:
        self.schedule: list[int] = []
        self.run: list[int] = []
        self.compute: list[Action] = []

    def at_conductor(self, action: Action) -> None:
        """A conductor continues with the action: builds are placed in batches, all others one by one."""
        (self.schedule if operations.of(action).new_server else self.run).append(action.id)


class Sweeper:
    """See the module."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, bus_health: BusHealth) -> None:
        self.conf, self.db, self.bus_health = conf, db, bus_health
        self.lease_seconds = conf.conductor.lease_seconds

    def sweep(self) -> Sweep:
        """Decide about each action whose lease ran out."""
        return self.db.write(self._sweep)

    def _sweep(self, conn: sa.Connection) -> Sweep:
        found = Sweep()
        expired = actions.expired(conn)
        alive = self._alive_hosts(conn, {a.host for a in expired if a.stage == objects.COMPUTE and a.host})
        for action in expired:
            try:
                with conn.begin_nested():
                    self._decide(conn, found, action, action.state == objects.RUNNING, alive)
            except (exception.UnexpectedTaskState, exception.InstanceNotFound) as error:
                LOG.info("action %s (%s) ends: %s", action.id, action.action, error,
                         extra={"instance_uuid": action.instance_uuid})
                completion.cancel(conn, action)
            except sa.exc.DBAPIError:
                raise       # the whole sweep is tried again
            except Exception:
                # one faulty action must not stop the sweep of the others
                LOG.exception("action %s (%s) was not handled; the next sweep tries again", action.id, action.action,
                              extra={"instance_uuid": action.instance_uuid})
                actions.release(conn, [action.id], self.lease_seconds, died=False)
        return found

    def _decide(self, conn: sa.Connection, found: Sweep, action: Action, died: bool,
                alive: Mapping[str, Life]) -> None:
        life = alive.get(action.host or "") if action.stage == objects.COMPUTE else None
        if died and life is not None and not life.has_reported:      # the host could not renew the lease
            actions.renew(conn, action.owner or "", [action.id], min(self.lease_seconds, life.seconds))
            return
        LOG.info("action %s (%s) at %s has had no worker since %s", action.id, action.action, action.host or "the conductor",
                 action.lease_until, extra={"instance_uuid": action.instance_uuid})
        verb = operations.of(action)        # KeyError for a verb that only another version has
        if not verb.is_given_up and action.stage == objects.COMPUTE:
            self._go_on_with_guest(conn, found, action, died, alive)
        elif died and action.attempts + 1 >= self.conf.conductor.max_attempts and not completion.guest_may_run(conn, action):
            reason = f"'{action.action}' was given up: {action.attempts + 1} workers died over it"
            if move_completion.give_back(conn, action, reason, self.lease_seconds):
                found.compute.append(action)
            else:
                completion.fail(conn, action, reason)
        elif action.stage == objects.CONDUCTOR and action.attempts >= self.conf.conductor.max_attempts:
            completion.fail(conn, action,
                            f"'{action.action}' was given up after {action.attempts} attempts to place the server")
        elif action.stage == objects.CONDUCTOR:
            actions.release(conn, [action.id], self.lease_seconds, died)
            found.at_conductor(action)
        elif action.stage == objects.API:
            self._api_is_dead(conn, found, action)
        elif action.host in alive:
            # if the host has just died, the next sweep finds the action as soon as the host counts as dead, not a lease later
            actions.release(conn, [action.id], min(self.lease_seconds, alive[action.host or ""].seconds), died)
            found.compute.append(action)
        else:
            self._host_is_dead(conn, found, action)

    def _go_on_with_guest(self, conn: sa.Connection, found: Sweep, action: Action, died: bool,
                          alive: Mapping[str, Life]) -> None:
        if action.host not in alive:
            other = live_migrate.partner(conn, action)
            goes_on = live_migrate.after_death(action, self._alive_hosts(conn, {other} if other else set()), other,
                                               self._is_given_up(conn, action.host))
            if goes_on is not None:
                host, step, arguments = goes_on
                actions.hand_over(conn, [action.id], self.lease_seconds, objects.COMPUTE, host,
                                  {**action.arguments, **arguments}, step)
                action.host = host
                found.compute.append(action)
                return
            if migration.LOST in action.arguments and action.step == "finish":      # no guest runs, or will run
                reason = exception.MigrationError(reason=action.arguments[migration.LOST]).message
                completion.fail(conn, action, reason, updates={"vm_state": states.ERROR, "power_state": states.NOSTATE})
                return
        actions.release(conn, [action.id], self.lease_seconds, died)
        found.compute.append(action)

    def _wait_for_host(self, conn: sa.Connection, action: Action) -> None:
        """Keep the action for its dead host: a guest on another host would write to the same disks. An event of the action says
        so, once."""
        reason = exception.GuestMayRun(host=action.host, operation=action.action).message
        if all(event["details"] != reason for event in actions.events_of(conn, action.id)):
            LOG.warning(reason, extra={"instance_uuid": action.instance_uuid})
            verb = operations.of(action)
            event = actions.event(f"compute_{verb.waiting_event or verb.event}", action.host, units.utcnow(), error=reason)
            actions.add_events(conn, [(action.id, event)])
        actions.release(conn, [action.id], self.lease_seconds, died=action.state == objects.RUNNING)

    def _is_given_up(self, conn: sa.Connection, host: str | None) -> bool:
        """Whether a dead host was declared down, or has been silent for longer than the two halves of a guest wait for each
        other."""
        if services.is_forced_down(conn, host):
            return True
        since = clock.read(conn) - datetime.timedelta(seconds=REST_SECONDS)
        return not self.bus_health.grace() and all(row["last_seen_at"] < since
                                                for row in services.of_hosts(conn, [host]))

    def _api_is_dead(self, conn: sa.Connection, found: Sweep, action: Action) -> None:
        """The request that wrote the action died. The next stage does what the request has not prepared, or fails the
        action."""
        stage = objects.COMPUTE if action.host else objects.CONDUCTOR
        actions.hand_over(conn, [action.id], self.lease_seconds, stage, action.host)
        if action.host:
            found.compute.append(action)
        else:
            found.at_conductor(action)

    def _host_is_dead(self, conn: sa.Connection, found: Sweep, action: Action) -> None:
        match operations.of(action).if_host_dies:
            case IfHostDies.WAIT:
                self._wait_or_follow(conn, found, action)
            case IfHostDies.PARTNER:
                self._give_back(conn, found, action)
            case IfHostDies.ANOTHER:
                self._take_another(conn, found, action)
            case IfHostDies.DONE:
                self._do_without_host(conn, found, action)
            case _:
                _fail_with_host(conn, action)

    def _do_without_host(self, conn: sa.Connection, found: Sweep, action: Action) -> None:
        """End the action without its host. A host that starts again removes the guest or turns it off
        (``compute/recovery.py``)."""
        verb = operations.of(action)
        server = instances.get_many(conn, [action.instance_uuid], tags=False).get(action.instance_uuid)
        if verb.settles_move and move_completion.is_reverting(conn, action):   # the guest may be there and nowhere else
            self._wait_or_follow(conn, found, action)
        elif verb.is_delete and server is not None and Cleanup.is_needed(server):
            actions.hand_over(conn, [action.id], self.lease_seconds, objects.CONDUCTOR)
            found.at_conductor(action)
        elif verb.settles_move:
            completion.succeed(conn, action, move_completion.confirmed(instances.get(conn, action.instance_uuid)))
        else:
            completion.succeed(conn, action, {})

    def _give_back(self, conn: sa.Connection, found: Sweep, action: Action) -> None:
        """The source of the move brings its guest back. Once the destination may run the guest, the action waits for that
        host."""
        if move_completion.give_back(conn, action, _of_dead_host(action).public, self.lease_seconds):
            found.compute.append(action)
        else:
            actions.release(conn, [action.id], self.lease_seconds, died=action.state == objects.RUNNING)

    def _take_another(self, conn: sa.Connection, found: Sweep, action: Action) -> None:
        if completion.guest_may_run(conn, action):
            self._wait_for_host(conn, action)
        elif not operations.of(action).new_server:      # the record of the server still names its old host
            ignore = sorted({*action.arguments.get("ignore_hosts", ()), action.host or ""})
            actions.release(conn, [action.id], self.lease_seconds, died=True)
            actions.hand_over(conn, [action.id], self.lease_seconds, objects.CONDUCTOR,
                              arguments={**action.arguments, "ignore_hosts": ignore})
            found.at_conductor(action)
        elif action.attempts + 1 < self.conf.conductor.max_attempts:
            completion.back_to_scheduling(conn, action, [action.host or ""], self.lease_seconds)
            found.at_conductor(action)
        else:
            _fail_with_host(conn, action)

    def _wait_or_follow(self, conn: sa.Connection, found: Sweep, action: Action) -> None:
        """Keep the action for its host. If the server was evacuated meanwhile, hand the action over to its new host."""
        server = instances.get_many(conn, [action.instance_uuid], tags=False).get(action.instance_uuid)
        if server is not None and operations.of(action).keeps_state and server.host not in (None, action.host):
            actions.hand_over(conn, [action.id], self.lease_seconds, objects.COMPUTE, server.host)
            action.host = server.host
            found.compute.append(action)
        else:
            actions.release(conn, [action.id], self.lease_seconds, died=action.state == objects.RUNNING)

    def _alive_hosts(self, conn: sa.Connection, wanted: set[str]) -> dict[str, Life]:
        """The hosts of ``wanted`` that count as alive. While the message bus is silent, all hosts do."""
        if not wanted:
            return {}
        # A report is written a moment after the lease that it renews. So the limit is a little less than service_down_time,
        # else the lease of a dead host would be waited for twice. One late report must not make a host dead.
        compute, now = self.conf.compute, clock.read(conn)
        limit = max(compute.service_down_time - MARGIN, 2 * compute.report_interval + 1)
        grace, heard_for = self.bus_health.grace(), self.bus_health.heard_for()
        silences = {row["host"]: (now - row["last_seen_at"]).total_seconds()
                    for row in services.of_hosts(conn, wanted) if not row["forced_down"]}
        found = {host: Life(max(grace, limit - silence), not grace or silence <= heard_for)
                 for host, silence in silences.items()}
        return {host: life for host, life in found.items() if life.seconds > 0}

    def settle_orphans(self) -> int:
        """Set servers in a transient state without any open action to ERROR: no worker will ever finish them."""
        return self.db.write(self._settle_orphans)

    def _settle_orphans(self, conn: sa.Connection) -> int:
        table, open_actions = models.instances, models.instance_actions
        before = units.utcnow() - datetime.timedelta(seconds=self.lease_seconds + self.conf.conductor.sweep_interval)
        has_action = sa.exists().where(open_actions.c.instance_uuid == table.c.uuid, open_actions.c.state.in_(actions.OPEN),
                                       open_actions.c.action.not_in(_WAIT_THEMSELVES))
        orphaned = sa.select(table.c.uuid, table.c.task_state).where(
            table.c.deleted == 0, sa.func.coalesce(table.c.updated_at, table.c.created_at) < before, ~has_action)
        # each half reads a part of an index of its own; with OR SQLite reads all servers
        transient = (table.c.task_state.is_not(None), table.c.vm_state == states.BUILDING)
        rows = conn.execute(sa.union(*(orphaned.where(half) for half in transient)).limit(AT_ONCE)).all()
        for row in rows:
            LOG.error("the server has no action though its task_state is %s", row.task_state, extra={"instance_uuid": row.uuid})
            instances.update_many(conn, [row.uuid], {
                "vm_state": states.ERROR, "task_state": None,
                "fault": completion.fault(f"No worker is left for '{row.task_state}' of this server")}, [row.task_state])
        return len(rows)


def _of_dead_host(action: Action) -> exception.NovaLiteError:
    down = exception.HostDownBefore if completion.has_not_begun(action) else exception.HostDown
    return down(host=action.host, operation=action.action)


def _fail_with_host(conn: sa.Connection, action: Action) -> None:
    reason = _of_dead_host(action)
    completion.fail(conn, action, reason.public, reason.message)
