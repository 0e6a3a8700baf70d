"""Shelving of servers: the image's record is made with the user's token before the answer, the rest is done after it."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations, units
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base, Prepared
from nova_lite.compute.api.server_images import forget_image, image_record
from nova_lite.context import RequestContext
from nova_lite.db import aggregates
from nova_lite.objects import states
from nova_lite.objects.instance import SHELVED_AT, SHELVED_HOST, SHELVED_IMAGE, Instance

_SUFFIX, _MAX_NAME = "-shelved", 255    # of the image's name: no Image service takes a longer one
KEEP = ""       # of a zone: the one that the server is pinned to stays


class Shelving(Base):
    """POST /servers/{id}/action (shelve, shelveOffload, unshelve)."""

    def shelve(self, context: RequestContext, instance: Instance) -> None:
        """Begin to shelve. Raises the 409s of its state, or the Image service's error for the user."""
        operations.check(operations.VERBS["shelve"], instance, may_override_lock=bool(context.is_admin))
        validate.refuse_vtpm(instance, "shelve")
        validate.refuse_encrypted_disks(instance, "shelve")
        image_id = None
        if not instance.is_volume_backed:
            name = instance.display_name[:_MAX_NAME - len(_SUFFIX)] + _SUFFIX
            record = image_record(context, instance, name, {"image_type": "snapshot"})
            image_id = self.image.create(context, record).id

        def prepare(_connection: sa.Connection, server: Instance) -> Prepared:
            known = {SHELVED_AT: units.utcnow().isoformat(), SHELVED_IMAGE: image_id, SHELVED_HOST: server.host}
            return Prepared({"system_metadata": {**server.system_metadata, **known}}, {"image_id": image_id})

        try:
            self.operate(context, instance.uuid, "shelve", prepare=prepare)
        except Exception:
            if image_id is not None:
                forget_image(self.image, context, image_id, instance)
            raise

    def shelve_offload(self, context: RequestContext, uuid: str) -> None:
        """Begin to take a shelved server off its host."""
        self.operate(context, uuid, "shelveOffload")

    def unshelve(self, context: RequestContext, instance: Instance, zone: str | None = KEEP, host: str | None = None) -> None:
        """Begin to unshelve. ``zone`` is the zone to which the server is pinned from now on (None: to none), ``host`` its new
        host. Raises UnshelveInvalidState and UnshelveHostNotInZone (409), Invalid for a zone or host that does not exist."""
        operations.check(operations.VERBS["unshelve"], instance, may_override_lock=bool(context.is_admin))
        updates: dict[str, Any] = {}
        if zone != KEEP or host is not None:
            if instance.vm_state != states.SHELVED_OFFLOADED:
                raise exception.UnshelveInvalidState(
                    instance_id=instance.uuid, state=states.status(instance.vm_state, instance.task_state))
            self._check_place(instance.pinned_availability_zone if zone == KEEP else zone, zone, host)
        if zone != KEEP:
            updates["pinned_availability_zone"] = zone

        def prepare(_connection: sa.Connection, _server: Instance) -> Prepared:
            return Prepared(updates, {"destination": host} if host is not None else {})

        self.operate(context, instance.uuid, "unshelve", prepare=prepare)

    def _check_place(self, pinned: str | None, asked: str | None, host: str | None) -> None:
        with self.db.read() as connection:
            if asked:
                validate.check_zone(connection, self.conf, asked)
            if host is None:
                return
            validate.check_destination(connection, host, None)
            of_host = aggregates.zone_of(connection, host) or self.conf.compute.default_availability_zone
        if pinned and pinned != of_host:
            raise exception.UnshelveHostNotInZone(host=host, availability_zone=pinned)
