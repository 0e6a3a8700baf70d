"""Deletes on a host: the guest with all its files, then its ports, then the row."""
from __future__ import annotations

from oslo_log import log

from nova_lite.compute.work import Work

LOG = log.getLogger(__name__)
EVENT = "compute_terminate_instance"


def run(work: Work) -> None:
    """Delete one server. Raises what the hypervisor or the network raised; nothing is forgotten then."""
    host, instance = work.host, work.instance
    host.driver.destroy(instance, instance.network_info)
    for vif in instance.network_info:
        host.network.unplug(instance, vif)
    host.network.deallocate(work.context, instance)
    work.succeed()
    LOG.info("deleted", extra={"instance_uuid": instance.uuid})
