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
from nova_lite.objects.network import VIF, PortState

LOG = log.getLogger(__name__)


@dataclass
class _Pending:
    """``gone``: ports that were deleted. ``ports``: the Network service's present data of all ports of the server; None when it
    was not read since the last event."""

    gone: set[str] = field(default_factory=set)
    ports: Mapping[str, PortState] | None = None


class NetworkInfoRefresh:
    """Joins the queued events of one server to one refresh, which reads the present state from the Network service."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._pending: dict[str, _Pending] = {}         # by server

    def request(self, instance_uuid: str, event: str, port_id: str | None,
                ports: Mapping[str, PortState] | None = None) -> bool:
        """Note an event. True when a refresh has to be queued. ``ports``: the data of the ports, when the caller has read
        them."""
        with self._lock:
            is_new = instance_uuid not in self._pending
            asked = self._pending.setdefault(instance_uuid, _Pending(ports=ports))
            if event == DELETED and port_id:
                asked.gone.add(port_id)
            if ports is None:
                asked.ports = None
            return is_new

    def run(self, instance_uuid: str, _waited: bool = False) -> None:
        """Read the ports, and report changes to the conductor. A failure is logged: the next event starts another refresh."""
        with self._lock:
            asked = self._pending.pop(instance_uuid, _Pending())
        try:
            self._refresh(instance_uuid, asked)
        except exception.InstanceNotFound:
            LOG.debug("the server is gone", extra={"instance_uuid": instance_uuid})
        except Exception:
            LOG.exception("the server's nics were not refreshed", extra={"instance_uuid": instance_uuid})

    def _refresh(self, instance_uuid: str, asked: _Pending) -> None:
        host, context = self._host, admin_context()
        instance = Instance.from_primitive(host.conductor.get_instance(context, instance_uuid))
        if instance.host != host.name or not instance.network_info:
            return
        if not asked.gone and asked.ports == {vif.id: vif.port_state() for vif in instance.network_info}:
            return      # the record is up to date
        vifs = [vif for vif in host.network.refresh(context, instance) if vif.id not in asked.gone]
        for vif in instance.network_info:
            if vif.id in asked.gone:
                self._detach(instance, vif)
        if vifs != instance.network_info:
            LOG.info("its nics have changed", extra={"instance_uuid": instance_uuid})
            host.conductor.network_info_changed(context, instance_uuid, host.name, [v.to_primitive() for v in vifs])

    def _detach(self, instance: Instance, vif: VIF) -> None:
        """Detach the nic of a deleted port, before the record loses it: its address may be assigned to another guest. A guest
        that does not release the nic loses it at its next start."""
        extra = {"instance_uuid": instance.uuid}
        LOG.info("port %s was deleted: its nic is taken from the guest", vif.id, extra=extra)
        for step in (self._host.driver.detach_interface, self._host.network.unplug):
            try:
                step(instance, vif)
            except Exception as error:
                LOG.error("the nic of port %s, which was deleted, was not taken away: %s", vif.id, error, extra=extra,
                          exc_info=needs_stack(error))
