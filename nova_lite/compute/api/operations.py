"""Power, pause, suspend, delete, lock and reset of a server."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations, units
from nova_lite.compute.api.base import Base, Prepare, Prepared
from nova_lite.compute.api.server_images import forget_image
from nova_lite.conductor import move_completion
from nova_lite.context import RequestContext
from nova_lite.db import actions, instances, moves, quotas
from nova_lite.objects import states
from nova_lite.objects.instance import SHELVED_IMAGE, Instance, without_shelving_keys

OWNER, ADMIN = "owner", "admin"


class Operations(Base):
    """Operations of the server's host, and changes of the server's record."""

    def start(self, context: RequestContext, uuid: str) -> None:
        """Power on."""
        self.operate(context, uuid, "start")

    def stop(self, context: RequestContext, uuid: str) -> None:
        """Power off, gracefully as far as the guest allows."""
        self.operate(context, uuid, "stop")

    def reboot(self, context: RequestContext, uuid: str, hard: bool) -> None:
        """Reboot: ask the guest, or (hard) start its domain afresh."""
        self.operate(context, uuid, "reboot_hard" if hard else "reboot", {"reboot_type": "HARD" if hard else "SOFT"})

    def pause(self, context: RequestContext, uuid: str) -> None:
        """Stop the guest's processors."""
        self.operate(context, uuid, "pause")

    def unpause(self, context: RequestContext, uuid: str) -> None:
        """Let them run again."""
        self.operate(context, uuid, "unpause")

    def suspend(self, context: RequestContext, uuid: str) -> None:
        """Store the guest's memory and power it off."""
        self.operate(context, uuid, "suspend")

    def resume(self, context: RequestContext, uuid: str) -> None:
        """Bring a suspended guest back."""
        self.operate(context, uuid, "resume")

    def delete(self, context: RequestContext, uuid: str) -> None:
        """Delete, whatever the server is doing; the second of two deletes is silently the same one.

        With ``[compute] reclaim_instance_interval`` a server that ever ran is only powered off, and can be restored; then
        InstanceInvalidState as long as it is moved, rebuilt or shelved.
        """
        instance = self.get(context, uuid)
        soft = self.conf.compute.reclaim_instance_interval and instance.host is not None and instance.launched_at is not None
        if soft and instance.task_state != states.DELETING:
            self._drop(context, instance, "soft_delete", _deleted_now)
        else:
            self._drop(context, instance, "delete")

    def force_delete(self, context: RequestContext, uuid: str) -> None:
        """Delete at once, without the grace that a soft delete would give."""
        self._drop(context, self.get(context, uuid), "force_delete")

    def _drop(self, context: RequestContext, instance: Instance, verb: str, prepare: Prepare | None = None) -> None:
        """Begin a delete, and delete the images that were to be made of the server: their host may be dead, or never begin. The
        image of a shelved server is deleted with it for good; when the image may be the only copy of a server in ERROR, it
        stays."""
        unless_whole: dict[str, bool] = {}

        def note(connection: sa.Connection, server: Instance) -> Prepared:
            under_way = actions.open_of_instances(connection, [server.uuid]).get(server.uuid, ())
            unless_whole.clear()        # the transaction may be tried again
            unless_whole.update({a.arguments["image_id"]: True for a, row in operations.known(under_way)
                                 if row.pending_cleanup is operations.PendingCleanup.IMAGE})
            prepared = prepare(connection, server) if prepare is not None else Prepared()
            shelved, its_own = server.system_metadata.get(SHELVED_IMAGE), states.owns_shelved_image(server)
            if shelved and not (its_own and not operations.VERBS[verb].is_delete):
                unless_whole[shelved] = not its_own
            if shelved and not its_own:
                prepared = prepared._replace(updates={**prepared.updates, "system_metadata": without_shelving_keys(server)})
            return prepared

        self.operate(context, instance.uuid, verb, prepare=note)
        for image_id, keep_whole in unless_whole.items():
            forget_image(self.image, context, image_id, instance, unless_whole=keep_whole)

    def restore(self, context: RequestContext, uuid: str) -> None:
        """Bring a soft-deleted server back, if the quota has room for it still: meanwhile it did not count."""
        def prepare(connection: sa.Connection, server: Instance) -> Prepared:
            quotas.check_servers(connection, self.conf, server.project_id, server.user_id, 1, server.vcpus, server.memory_mb)
            return Prepared()

        self.operate(context, uuid, "restore", prepare=prepare)

    def trigger_crash_dump(self, context: RequestContext, uuid: str) -> None:
        """Let the guest's kernel write its dump. Raises InstanceNotReady for a server without a host."""
        if self.get(context, uuid).host is None:
            raise exception.InstanceNotReady(instance_id=uuid)
        self.operate(context, uuid, "trigger_crash_dump")

    def lock(self, context: RequestContext, instance: Instance, reason: str | None) -> None:
        """Refuse further operations to everybody but admins. An owner cannot take over an admin's lock."""
        owner = instance.project_id == context.project_id
        if instance.locked and owner:
            return
        values = {"locked": True, "locked_by": OWNER if owner else ADMIN, "locked_reason": reason}
        self.db.write(_change, context, "lock", instance.uuid, values)

    def unlock(self, context: RequestContext, instance: Instance) -> None:
        """Allow operations again."""
        self.db.write(_change, context, "unlock", instance.uuid, {"locked": False, "locked_by": None, "locked_reason": None})

    def reset_state(self, context: RequestContext, instance: Instance, state: str) -> None:
        """Declare a server active or in error, and idle. What still works on it notices and stops."""
        values = {"vm_state": {"active": states.ACTIVE, "error": states.ERROR}[state], "task_state": None}
        self.db.write(_reset, context, instance.uuid, values)


def is_expected_locked_by(context: RequestContext, instance: Instance) -> bool:
    """Whether the lock is one that the caller set itself: an owner's by the owner, an admin's by an admin."""
    expected = OWNER if instance.project_id == context.project_id else ADMIN
    return not instance.locked_by or instance.locked_by == expected


def _change(connection: sa.Connection, context: RequestContext, action: str, uuid: str, values: dict[str, Any]) -> None:
    instances.update(connection, uuid, values)
    actions.record(connection, context, action, uuid)


def _reset(connection: sa.Connection, context: RequestContext, uuid: str, values: dict[str, Any]) -> None:
    server = instances.get(connection, uuid, lock=True)
    _change(connection, context, "resetState", uuid, values)
    if server.vm_state == states.RESIZED:
        move_completion.end_waiting(connection, server)


def _deleted_now(connection: sa.Connection, server: Instance) -> Prepared:
    waiting = moves.find(connection, server.uuid, lock=True) if server.vm_state == states.RESIZED else None
    if waiting is not None and waiting.reverting:       # only a revert makes the guest again
        raise exception.InstanceInvalidState(action="delete", instance_id=server.uuid, attr="vm_state", state=server.vm_state)
    return Prepared({"deleted_at": units.utcnow()})
