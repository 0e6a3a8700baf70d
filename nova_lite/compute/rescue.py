"""Rescues on a host: the guest boots from another disk and sees its own, and goes back to that."""
from __future__ import annotations

from collections.abc import Callable

from oslo_log import log

from nova_lite.compute import build
from nova_lite.compute.work import Work
from nova_lite.objects.image import ImageMeta

LOG = log.getLogger(__name__)


def rescue(work: Work) -> None:
    """Boot the server from the image of the action. Raises the error: then the server is in ERROR, as in Nova. A rescue that an
    earlier run of this action has begun continues. The rescue of an older action is not used: its image may differ."""
    host, instance = work.host, work.instance
    if work.guest_may_run and host.driver.is_rescued(instance):
        work.succeed()
        LOG.info("rescued by an earlier run", extra={"instance_uuid": instance.uuid})
        return
    image = ImageMeta.from_primitive(work.action.arguments["image"])
    fetch = build.fetcher(work, image)
    host.driver.cache_image(image, fetch)       # while the guest still runs: a missing image must not stop it
    if host.driver.power_state(instance) is not None:
        host.driver.power_off(instance, host.conf.compute.shutdown_timeout)
    _plug(work)
    work.guest_begins()     # no other guest runs any more
    host.driver.rescue(instance, instance.network_info, image, build.guest_files(work, instance.network_info), fetch)
    work.succeed()
    LOG.info("rescued with image %s", image.id, extra={"instance_uuid": instance.uuid})


def unrescue(work: Work) -> None:
    """Boot it from its own disk again."""
    _plug(work)
    work.host.driver.unrescue(work.instance, work.instance.network_info)
    work.succeed()


def _plug(work: Work) -> None:
    for vif in work.instance.network_info:
        work.host.network.plug(work.instance, vif)


VERBS: dict[str, Callable[[Work], None]] = {"rescue": rescue, "unrescue": unrescue}
