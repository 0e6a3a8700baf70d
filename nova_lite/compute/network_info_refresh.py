"""Refreshes the cached network information of servers that the network says have changed, in each server's queue."""
from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from oslo_log import log

from nova_lite import exception
from nova_lite.compute.external_events import DELETED
from nova_lite.compute.work import Host, needs_stack
from nova_lite.context import admin_context
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, PortNews

LOG = log.getLogger(__name__)


@dataclass
class _Pending:
    """``gone`` are ports that were deleted; ``ports`` is what the network says of all the server's ports, None when it has not
    been asked since the last event."""

    gone: set[str] = field(default_factory=set)
    ports: Mapping[str, PortNews] | None = None


class NetworkInfoRefresh:
    """The events of one server that are queued together are one refresh: it asks the network for its state, not for changes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._pending: dict[str, _Pending] = {}         # by server

    def request(self, instance_uuid: str, event: str, port_id: str | None, ports: Mapping[str, PortNews] | None = None) -> bool:
        """Note an event; True when a look has to be queued for it. ``ports``: what the network says already."""
        with self._lock:
            is_new = instance_uuid not in self._pending
            asked = self._pending.setdefault(instance_uuid, _Pending(ports=ports))
            if event == DELETED and port_id:
                asked.gone.add(port_id)
            if ports is None:
                asked.ports = None
            return is_new

    def run(self, instance_uuid: str, _waited: bool = False) -> None:
        """Ask the network and tell the conductor what is new. A failure is logged: the next event brings another look."""
        with self._lock:
            asked = self._pending.pop(instance_uuid, _Pending())
        try:
            self._refresh(instance_uuid, asked)
        except exception.InstanceNotFound:
            LOG.debug("the server is gone", extra={"instance_uuid": instance_uuid})
        except Exception:
            LOG.exception("the server's nics were not looked at", extra={"instance_uuid": instance_uuid})

    def _refresh(self, instance_uuid: str, asked: _Pending) -> None:
        host, context = self._host, admin_context()
        instance = Instance.from_primitive(host.conductor.get_instance(context, instance_uuid))
        if instance.host != host.name or not instance.network_info:
            return
        if not asked.gone and asked.ports == {vif.id: vif.news() for vif in instance.network_info}:
            return      # the record knows it all
        vifs = [vif for vif in host.network.refresh(context, instance) if vif.id not in asked.gone]
        for vif in instance.network_info:
            if vif.id in asked.gone:
                self._detach(instance, vif)
        if vifs != instance.network_info:
            LOG.info("its nics have changed", extra={"instance_uuid": instance_uuid})
            host.conductor.network_info_changed(context, instance_uuid, host.name, [v.to_primitive() for v in vifs])

    def _detach(self, instance: Instance, vif: VIF) -> None:
        """The nic of a port that was deleted, before the record forgets it: its address may be another guest's by now. Of a
        guest that does not let go the next start is without it."""
        extra = {"instance_uuid": instance.uuid}
        LOG.info("port %s was deleted: its nic is taken from the guest", vif.id, extra=extra)
        for step in (self._host.driver.detach_interface, self._host.network.unplug):
            try:
                step(instance, vif)
            except Exception as error:
                LOG.error("the nic of port %s, which was deleted, was not taken away: %s", vif.id, error, extra=extra,
                          exc_info=needs_stack(error))
