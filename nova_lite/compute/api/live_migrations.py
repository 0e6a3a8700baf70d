"""Live migrations: begun, aborted, made to come to their end."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations, retry, units
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext
from nova_lite.db import actions, clock, moves, services
from nova_lite.objects import action as action_objects
from nova_lite.objects import hardware
from nova_lite.objects import migration as objects
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.operations import record_changes
from nova_lite.virt.live import ABORT, FORCE_COMPLETE

UNDER_WAY = (objects.QUEUED, objects.PREPARING, objects.RUNNING, objects.POST_MIGRATING)
CHECKS = retry.Schedule((0.05, 0.1, 0.2, 0.5), endless=True, timeout=60.0)     # a request of an old microversion waits for them


class LiveMigrations(Base):
    """The part of the compute API that moves running guests."""

    def live_migrate(self, context: RequestContext, instance: Instance, host: str | None, block_migration: bool | None,
                     disk_over_commit: bool | None, force: bool, wait: bool) -> None:
        """Move a running server, to ``host`` if one is named (``force``: without asking the scheduler). ``block_migration``
        None: as the hosts need it. ``wait``: until the checks have ended. Raises UnableToMigrateToSelf,
        ComputeServiceUnavailable, Invalid for a host that does not exist, the errors of ``states.check``, and, with ``wait``,
        those of the checks (400)."""
        operations.check(operations.VERBS["live_migrate"], instance, may_override_lock=bool(context.is_admin))
        validate.refuse_vtpm(instance, "live-migration")
        if hardware.demand(instance.flavor, instance.image) is not None:
            raise exception.MigrationPreCheckError(reason="its CPUs, NUMA nodes or pages are bound to those of its host: "
                                                          "it can be migrated cold")
        if instance.flavor.pci_requests:
            raise exception.MigrationPreCheckError(reason="it has PCI devices of its host: it can be migrated cold")
        if host is not None:
            self._check_destination(instance, host)
        self.operate(context, instance.uuid, "live_migrate", {
            "host": host, "block_migration": block_migration, "disk_over_commit": disk_over_commit, "force": force})
        if wait:
            self._wait_for_checks(context, instance.uuid)

    def _check_destination(self, instance: Instance, host: str) -> None:
        if host == instance.host:
            raise exception.UnableToMigrateToSelf(instance_id=instance.uuid, host=host)
        with self.db.read() as connection:
            try:
                found = services.get_by_host(connection, host, services.COMPUTE)
            except exception.NotFound as error:
                raise exception.Invalid(exception.ComputeHostNotFound(host=host).message) from error
            now = clock.read(connection)
        if not services.is_up(found, self.conf.compute.service_down_time, now):
            raise exception.ComputeServiceUnavailable(host=host)

    def _wait_for_checks(self, context: RequestContext, uuid: str) -> None:
        """Until a host works on it, or the checks have refused it."""
        def look() -> Action:
            with self.db.read() as connection:
                return actions.get_by_request_id(connection, uuid, context.request_id)

        action = retry.poll(look, lambda found: found.stage != action_objects.CONDUCTOR or found.state == action_objects.ERROR,
                            CHECKS, self.clock)
        if action.stage == action_objects.CONDUCTOR and action.state == action_objects.ERROR:
            raise exception.Invalid(str(action.arguments.get("error") or action.message or "live migration failed"))

    def live_migrations_under_way(self, instance: Instance) -> list[Migration]:
        """The open live migrations of a server: one, at most."""
        with self.db.read() as connection:
            return moves.list_all(connection, {"instance_uuid": instance.uuid, "migration_type": objects.LIVE_MIGRATION,
                                               "status": UNDER_WAY})

    def abort_live_migration(self, context: RequestContext, instance: Instance, migration_id: str, also_queued: bool) -> None:
        """Let a server stay where it is. Raises NotFound, InvalidMigrationState (400) and as ``states.check``."""
        operations.check(record_changes.ABORT_LIVE_MIGRATION, instance, may_override_lock=bool(context.is_admin))
        allowed = (objects.QUEUED, objects.PREPARING, objects.RUNNING) if also_queued else (objects.RUNNING,)
        self.db.write(_want, context, instance, migration_id, ABORT, allowed, "live_migration_cancel")

    def force_complete_live_migration(self, context: RequestContext, instance: Instance, migration_id: str) -> None:
        """Complete the migration, even if the guest has to be stopped for it. Raises Invalid (400, as Nova does also without a
        migration), InvalidMigrationState (400) and as ``states.check``."""
        operations.check(record_changes.FORCE_COMPLETE, instance, may_override_lock=bool(context.is_admin))
        try:
            self.db.write(_want, context, instance, migration_id, FORCE_COMPLETE, (objects.RUNNING,),
                          "live_migration_force_complete")
        except exception.NotFound as error:
            raise exception.Invalid(error.public) from error


def _want(connection: sa.Connection, context: RequestContext, instance: Instance, migration_id: str, wanted: str,
          allowed: tuple[str, ...], name: str) -> None:
    """Written into the action of the move: the host that works on it asks for it every second."""
    move = find(connection, instance, migration_id)
    open_actions = actions.open_of_instances(connection, [instance.uuid]).get(instance.uuid, [])
    ids = [a.id for a in open_actions if a.arguments.get("migration_id") == move.id]
    locked = actions.lock(connection, ids)
    move = moves.get(connection, move.id, lock=True)
    if move.status not in allowed or not locked:
        raise exception.InvalidMigrationState(migration_id=move.id, instance_id=instance.uuid, state=move.status, method=wanted)
    actions.record(connection, context, name, instance.uuid)
    for action in locked.values():
        arguments: dict[str, Any] = {**action.arguments, "wanted": wanted}
        actions.set_arguments(connection, action.id, arguments)


def find(connection: sa.Connection, instance: Instance, migration_id: str) -> Migration:
    """A live migration of a server. Raises NotFound."""
    unknown = f"Migration {migration_id} for instance {instance.uuid} could not be found."
    number = units.number(migration_id)
    if number is None:
        raise exception.NotFound(unknown)
    try:
        move = moves.get(connection, number)
    except exception.MigrationNotFound as error:
        raise exception.NotFound(unknown) from error
    if move.instance_uuid != instance.uuid:
        raise exception.NotFound(unknown)
    if move.migration_type != objects.LIVE_MIGRATION:
        raise exception.InvalidMigrationState(migration_id=move.id, instance_id=instance.uuid, state=move.status,
                                              method="live migrate")
    return move
