"""Deletes on a host: the guest with all its files, then its volumes and ports, then its disks' key, then the row."""
from __future__ import annotations

from oslo_log import log

from nova_lite import exception
from nova_lite.compute import disk_keys, guest_removal, shares, snapshot
from nova_lite.compute.work import Work
from nova_lite.objects import states
from nova_lite.volume import release

LOG = log.getLogger(__name__)


def run(work: Work) -> None:
    """Delete one server. Raises the error of the hypervisor or of another service; then the record of the server stays
    complete."""
    host, instance = work.host, work.instance
    guest_removal.destroy(host, instance)
    shares.release_all(host, instance)
    give_back(work)
    release.delete_volumes(host.volume, instance, host.clock)
    if image_id := states.left_image(instance):
        snapshot.discard(work, image_id)
    disk_keys.delete(host.conf, instance)
    work.succeed()
    LOG.info("deleted", extra={"instance_uuid": instance.uuid})


def give_back(work: Work) -> None:
    """Release attachments and ports. When one service is down, the resources of the other are still released. Raises the first
    error."""
    host, instance, first = work.host, work.instance, None
    for what, step in (("volumes", lambda: release.release_all(host.volume, instance)),
                       ("ports", lambda: host.network.deallocate(work.context, instance))):
        try:
            step()
        except exception.NovaLiteError as error:
            LOG.warning("its %s were not released: %s", what, error, extra={"instance_uuid": instance.uuid})
            first = first or error
    if first is not None:
        raise first
