"""Events of other services about servers: checked, then sent to the hosts of the servers."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception
from nova_lite.compute import external_events as names
from nova_lite.compute.api.base import Base, Prepared
from nova_lite.context import RequestContext
from nova_lite.db import instances, moves
from nova_lite.objects import block_device as bd
from nova_lite.objects import states
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
OK, BAD_TAG, NOT_FOUND, NO_HOST = 200, 400, 404, 422
_POWER = {"POWER_ON": ("start", states.STOPPED), "POWER_OFF": ("stop", states.ACTIVE)}
_NEED_TAG = (names.VOLUME_EXTENDED,)


class ExternalEvents(Base):
    """POST /os-server-external-events."""

    def external_events(self, context: RequestContext, events: Sequence[Mapping[str, Any]]) -> list[int]:
        """A code for each event: 200 accepted, 400 without the tag that it needs, 404 unknown server, 422 server without host.

        The events of one host go in one message, which may be lost: nothing depends on it. The events of a server that moves go
        to both its hosts, since the host that waits for its ports may not be the host of the record.
        """
        with self.db.read() as connection:
            found = instances.get_many(connection, {e["server_uuid"] for e in events}, tags=False)
            on_their_way = moves.open_of(connection, found) if found else []
        hosts: dict[str, set[str | None]] = {uuid: {server.host} for uuid, server in found.items()}
        for move in on_their_way:
            hosts[move.instance_uuid] |= {move.source_compute, move.dest_compute}
        by_host: dict[str, list[dict[str, Any]]] = defaultdict(list)
        codes = []
        for event in events:
            instance = found.get(event["server_uuid"])
            code = _check(instance, event)
            if code == OK and instance is not None:
                if event["name"] == names.POWER_UPDATE:
                    code = self._power(context, instance, event["tag"])
                elif event["name"] == names.VOLUME_EXTENDED:
                    code = self._extend(context, instance, event["tag"])
                else:
                    for host in sorted(filter(None, hosts[instance.uuid])):
                        by_host[host].append({"name": event["name"], "server_uuid": instance.uuid, "tag": event.get("tag"),
                                              "status": event.get("status", names.COMPLETED)})
            codes.append(code)
        for host, some in by_host.items():
            self.wakeups.send(self.compute_rpc.external_instance_event, context, host, some)
        return codes

    def _extend(self, context: RequestContext, instance: Instance, volume_id: str) -> int:
        """A volume has grown. The event is not repeated, so it becomes an action, which survives lost messages and dead
        hosts."""
        def prepare(_connection: sa.Connection, server: Instance) -> Prepared:
            if server.host is None:
                raise exception.InstanceNotReady(instance_id=server.uuid)
            if bd.find(server.block_devices, volume_id) is None:
                raise exception.VolumeNotAttached(instance_id=server.uuid, volume_id=volume_id)
            return Prepared()

        try:
            self.operate(context, instance.uuid, "extend_volume", {"volume_id": volume_id}, prepare)
        except exception.VolumeNotAttached as error:
            LOG.info("%s: %s", names.VOLUME_EXTENDED, error, extra={"instance_uuid": instance.uuid})
        except exception.InstanceNotFound:
            return NOT_FOUND
        except exception.InstanceNotReady:
            return NO_HOST
        return OK

    def _power(self, context: RequestContext, instance: Instance, tag: str) -> int:
        """The server's power was switched outside of nova_lite: do the same, unless the server is in that state already."""
        verb, vm_state = _POWER[tag]
        if instance.vm_state != vm_state:
            LOG.info("%s: the server is %s already", tag, instance.vm_state, extra={"instance_uuid": instance.uuid})
            return OK
        try:
            self.operate(context, instance.uuid, verb)
        except (exception.Conflict, exception.InstanceNotFound) as error:
            LOG.info("%s: %s", tag, error, extra={"instance_uuid": instance.uuid})
            return error.code
        return OK


def _check(instance: Instance | None, event: Mapping[str, Any]) -> int:
    if instance is None:
        return NOT_FOUND
    if event["name"] == names.POWER_UPDATE and event.get("tag") not in _POWER:
        return BAD_TAG
    if event["name"] in _NEED_TAG and not event.get("tag"):
        return BAD_TAG
    return OK if instance.host else NO_HOST
