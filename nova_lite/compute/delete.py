"""Deletes on a host: the guest with all its files, then its volumes and ports, then the row."""
from __future__ import annotations

from oslo_log import log

from nova_lite.compute import volumes
from nova_lite.compute.work import Work
from nova_lite.volume import release

LOG = log.getLogger(__name__)
EVENT = "compute_terminate_instance"


def run(work: Work) -> None:
    """Delete one server. Raises what the hypervisor or a neighbour raised; nothing is forgotten then."""
    host, instance = work.host, work.instance
    host.driver.destroy(instance, instance.network_info)
    for vif in instance.network_info:
        host.network.unplug(instance, vif)
    volumes.disconnect_all(host.driver, instance)
    release.release_all(host.volume, instance)
    host.network.deallocate(work.context, instance)
    release.delete_volumes(host.volume, instance)
    work.succeed()
    LOG.info("deleted", extra={"instance_uuid": instance.uuid})
