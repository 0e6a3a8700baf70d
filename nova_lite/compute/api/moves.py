"""Resize and cold migration as users and operators ask for them, and the lists of moves."""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base, Prepared
from nova_lite.context import RequestContext
from nova_lite.db import clock, flavors, moves, quotas, services
from nova_lite.objects import hardware
from nova_lite.objects import migration as objects
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration

NOT_RESIZED = "Instance has not been resized."


class Moves(Base):
    """All raise InstanceNotFound, InstanceIsLocked, InstanceNotReady or InstanceInvalidState."""

    def resize(self, context: RequestContext, instance: Instance, flavor_id: str, disk_config: str | None = None) -> None:
        """Give a server another flavor, on any host with the room. Raises the errors of the flavor (Invalid and subclasses,
        400), TooManyInstances, and Conflict when the server's host is down."""
        operations.check(operations.VERBS["resize"], instance, may_override_lock=bool(context.is_admin))
        automatic = validate.auto_disk_config(instance.image, disk_config) if instance.image and disk_config else None
        with self.db.read() as conn:
            flavor = self.with_devices(self._flavor(conn, context, flavor_id))
            self._check_host_is_up(conn, instance)
        _check_flavor(instance, flavor)
        extra = {} if disk_config is None else {"auto_disk_config": bool(automatic)}
        self.operate(context, instance.uuid, "resize", {"flavor": flavor.to_primitive()},
                     functools.partial(self._prepare_resize, flavor, extra))

    def migrate(self, context: RequestContext, instance: Instance, host: str | None = None) -> None:
        """Move a server to another host (``host``: to that one). Raises ComputeHostNotFound as Invalid (400),
        CannotMigrateToSameHost, and Conflict when the server's host is not there to let it go."""
        operations.check(operations.VERBS["migrate"], instance, may_override_lock=bool(context.is_admin))
        with self.db.read() as conn:
            if host is not None:
                if host == instance.host:
                    raise exception.CannotMigrateToSameHost()
                validate.check_destination(conn, host, None)
            self._check_host_is_up(conn, instance)
        self.operate(context, instance.uuid, "migrate", {"host": host})

    def confirm_resize(self, context: RequestContext, instance: Instance) -> None:
        """The server stays at its new host, and cannot be reverted any more. Raises Invalid when it has not moved."""
        self._ask(context, instance, "confirmResize")

    def revert_resize(self, context: RequestContext, instance: Instance) -> None:
        """The server goes back to what and where it was. Raises Invalid when it has not moved, TooManyInstances when it would
        need more than the quota has left."""
        self._ask(context, instance, "revertResize")

    def list_migrations(self, filters: Mapping[str, Any], **page: Any) -> list[Migration]:
        """See ``db.moves.list_all``."""
        with self.db.read() as conn:
            return moves.list_all(conn, filters, **page)

    def _ask(self, context: RequestContext, instance: Instance, verb: str) -> None:
        self.operate(context, instance.uuid, verb, prepare=functools.partial(self._prepare_decision, operations.VERBS[verb]))

    def _prepare_decision(self, verb: operations.Verb, conn: sa.Connection, instance: Instance) -> Prepared:
        assert verb.move is not None
        move = moves.find(conn, instance.uuid, [objects.FINISHED], lock=True)
        if move is None:
            raise exception.Invalid(NOT_RESIZED)
        updates: dict[str, Any] = {}
        if verb.move.to_source and move.old_flavor is not None:
            updates = self._claim_quota(conn, instance, move.old_flavor)
        moves.update(conn, move.id, {"status": verb.move.statuses[0]})
        # the old host confirms, since the files to remove are there; the new host begins a revert, since the guest is there
        host = move.source_compute if verb.begins is operations.Begins.SOURCE else None
        return Prepared(updates, {"migration_id": move.id}, host)

    def _prepare_resize(self, flavor: Flavor, extra: Mapping[str, Any], conn: sa.Connection, instance: Instance) -> Prepared:
        if flavor.flavorid == instance.flavor.flavorid:
            raise exception.CannotResizeToSameFlavor()
        return Prepared({**self._claim_quota(conn, instance, flavor), **extra})

    def _claim_quota(self, conn: sa.Connection, instance: Instance, flavor: Flavor) -> dict[str, Any]:
        """The columns that quotas count: the larger of both flavors from now on, so that two requests at once cannot take the
        same room. Raises TooManyInstances."""
        cores, ram = max(0, flavor.vcpus - instance.vcpus), max(0, flavor.memory_mb - instance.memory_mb)
        if cores or ram:
            quotas.check_servers(conn, self.conf, instance.project_id, instance.user_id, 0, cores, ram)
        return {"vcpus": instance.vcpus + cores, "memory_mb": instance.memory_mb + ram}

    def _flavor(self, conn: sa.Connection, context: RequestContext, flavor_id: str) -> Flavor:
        try:
            flavor = flavors.get(conn, flavor_id, None if context.is_admin else context.project_id)
        except exception.FlavorNotFound as error:
            raise exception.Invalid(error.public) from error
        if flavor.disabled:
            raise exception.Invalid(f"Flavor {flavor_id} could not be found.")
        return flavor

    def _check_host_is_up(self, conn: sa.Connection, instance: Instance) -> None:
        row = next(iter(services.of_hosts(conn, [instance.host])), None)
        if row is None or not services.is_up(row, self.conf.compute.service_down_time, clock.read(conn)):
            raise exception.Conflict(f"Service is unavailable at this time: compute host {instance.host}, where instance "
                                     f"{instance.uuid} is, does not report.")


def _check_flavor(instance: Instance, flavor: Flavor) -> None:
    """Raise Nova's errors for flavors that a server cannot have."""
    if flavor.flavorid == instance.flavor.flavorid:
        raise exception.CannotResizeToSameFlavor()
    if flavor.root_gb == 0 and instance.flavor.root_gb != 0 and not instance.is_volume_backed:
        raise exception.CannotResizeDisk(reason="Resize to zero disk flavor is not allowed.")
    image = instance.image
    hardware.check(flavor, image)
    if hardware.encrypts_disks(flavor, image) != hardware.encrypts_disks(instance.flavor, image):
        raise exception.InvalidHardware(reason="Whether an instance's disks are encrypted cannot be changed by a resize.")
    if (wanted := hardware.secure_boot(flavor, image)) != (had := hardware.secure_boot(instance.flavor, image)):
        # what UEFI remembers goes along, and with it whether keys were ever enrolled
        raise exception.InvalidHardware(reason=f"Secure boot cannot be changed by a resize: it is {had} for the server, and "
                                               f"{wanted} with flavor {flavor.name}.")
    if image is not None and not instance.is_volume_backed and flavor.root_gb:
        validate.check_image(_any_state(image), flavor, allow_zero_disk=True)
    elif image is not None and flavor.memory_mb < int(image.min_ram or 0):
        raise exception.FlavorMemoryTooSmall()


def _any_state(image: ImageMeta) -> ImageMeta:
    """The image as it was when the server was made: whether it is still there does not matter."""
    return dataclasses.replace(image, status="active")
