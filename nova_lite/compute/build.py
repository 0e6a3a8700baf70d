"""Builds on a host: ports, volumes, then the guest. Each step finds what an earlier run has made, and continues from there."""
from __future__ import annotations

import dataclasses
import secrets

from oslo_log import log

from nova_lite import exception
from nova_lite.compute import delete, disk_keys, guest_removal, volumes
from nova_lite.compute.external_events import Listener
from nova_lite.compute.work import Work, needs_stack
from nova_lite.objects import states
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, NetworkRequest
from nova_lite.virt import guest_metadata
from nova_lite.virt.driver import Fetcher, GuestFiles

LOG = log.getLogger(__name__)


def run(work: Work) -> None:
    """Build one server, and report the result to the conductor."""
    extra = {"instance_uuid": work.instance.uuid}
    try:
        with work.host.events.listen(work.instance.uuid) as listener:
            _build(work, listener)
    except (exception.UnexpectedTaskState, exception.InstanceNotFound):
        LOG.info("deleted while it was built", extra=extra)
        _clean_up(work)
        work.fail(exception.BuildAborted(instance_id=work.instance.uuid, reason="it was deleted meanwhile"), {})
    except exception.LeaseLost:
        leave(work)
        raise
    except Exception as error:
        LOG.error("build failed: %s", error, extra=extra, exc_info=needs_stack(error))
        _clean_up(work)
        work.build_failed(error, _another_host_may_do_better(error))
    else:
        LOG.info("built", extra=extra)


def _build(work: Work, listener: Listener) -> None:
    host, instance = work.host, work.instance
    disk_keys.ensure(work)
    vifs = host.network.allocate(work.context, instance, _requests(instance.network_request), host.name)
    if vifs != instance.network_info or instance.volumes or instance.task_state != states.SPAWNING:
        instance.network_info = vifs
        volumes.connect_all(work)
        work.update({"task_state": states.SPAWNING, "network_info": [v.to_primitive() for v in vifs],
                     **volumes.columns(instance)}, [states.NETWORKING, states.BLOCK_DEVICE_MAPPING, states.SPAWNING])
        instance.task_state = states.SPAWNING
    for vif in vifs:
        host.network.plug(instance, vif)
    host.driver.spawn(instance, vifs, guest_files(work, vifs), fetcher(work, instance.image),
                      listener.waiter(work.context, instance, vifs), work.check)
    volumes.complete_all(work)
    work.succeed(volumes.columns(instance))


def fetcher(work: Work, image: ImageMeta | None) -> Fetcher:
    """Downloads images, and checks them against the checksums in ``image``: an image that was replaced since the request is
    refused."""
    def fetch(image_id: str, path: str) -> None:
        try:
            work.host.image.download(work.context, image_id, path, image if image and image.id == image_id else None)
        except exception.ImageNotFound as error:
            reason = f"image {image_id} is not there any more: it was deleted after the server was asked for"
            raise exception.BuildAborted(instance_id=work.instance.uuid, reason=reason) from error

    return fetch


def _requests(asked: str | list[dict] | None) -> str | list[NetworkRequest] | None:
    if asked is None or isinstance(asked, str):
        return asked
    return [NetworkRequest.from_primitive(one) for one in asked]


def guest_files(work: Work, vifs: list[VIF]) -> GuestFiles:
    """What the guest is given besides its disks; the password of its action only with a config drive."""
    password, files = work.action.arguments.get("admin_password"), work.instance.personality or []
    if not work.instance.config_drive:
        return GuestFiles(files, password)
    seed = secrets.token_bytes(guest_metadata.RANDOM_SEED_SIZE)

    def documents(addresses: dict[str, str]) -> dict[str, bytes]:
        return guest_metadata.build(work.instance, vifs, password, files, seed, work.host.vendor_data, addresses)
    is_tagged = dataclasses.replace(work.instance, network_info=vifs).has_device_tags
    return GuestFiles(files, password, documents({}), documents if is_tagged else None)


def leave(work: Work) -> None:
    """The lease of the action is lost. If the server still belongs to this host, the host's next worker needs what is here. If
    another host has the server, its guest runs there with the ports and volumes, so the guest here is removed. If the server
    was deleted, its ports are released too."""
    host, instance = work.host, work.instance
    try:
        now = Instance.from_primitive(host.conductor.get_instance(work.context, instance.uuid))
        if now.host == host.name:
            return
        gone = False
    except exception.InstanceNotFound:
        gone = True
    LOG.info("%s while this host built it: removing it here", "deleted" if gone else "given to another",
             extra={"instance_uuid": instance.uuid})
    try:
        guest_removal.destroy(host, instance)
        if gone:
            host.network.deallocate(work.context, instance)
    except exception.NovaLiteError as error:        # the next comparison of guests and servers removes the rest
        LOG.error("the guest was not removed here: %s", error, extra={"instance_uuid": instance.uuid})


def _clean_up(work: Work) -> None:
    """Remove all that was made. What cannot be removed now is logged; the delete of the server tries again. Raises
    GuestRemains: then no other host may build the server, and its volumes stay in use."""
    instance = work.instance
    try:
        guest_removal.destroy_failed(work, work.guest_may_run)
        # this write fails when the lease is lost: another host may use the ports and volumes by now
        work.update(volumes.columns(instance), [*states.BUILD_STATES, states.DELETING])
        delete.give_back(work)
    except exception.GuestRemains:
        raise
    except Exception as error:
        LOG.error("clean-up after a failed build failed: %s", error, extra={"instance_uuid": instance.uuid},
                  exc_info=needs_stack(error))


def _another_host_may_do_better(error: Exception) -> bool:
    """Errors of the request (4xx) and aborted builds would be the same on any host."""
    if isinstance(error, exception.BuildAborted):
        return False
    return not (isinstance(error, exception.NovaLiteError) and error.code < 500)
