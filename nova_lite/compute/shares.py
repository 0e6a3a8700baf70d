"""Shares of files on a host: it gets access to them, mounts them while their guest runs, and gives the access back with the
last of its servers that has the share."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nova_lite.compute.work import Host, Work
from nova_lite.context import admin_context
from nova_lite.objects import share as objects
from nova_lite.objects.instance import Instance
from nova_lite.objects.share import ShareAttachment


def attach(work: Work) -> None:
    """Let this host mount the share; the guest gets it when it starts."""
    share = _share(work)
    if share is None:
        work.succeed()
        return
    work.host.share.allow(admin_context(), share.share_id, work.host.conf.my_ip)
    work.succeed({"share": {"id": share.uuid, "values": {"status": objects.INACTIVE}}})


def detach(work: Work) -> None:
    """The inverse."""
    share = _share(work)
    if share is None:
        work.succeed()
        return
    _release(work.host, work.instance, share)
    work.succeed({"share": {"id": share.uuid, "values": None}})


def failed(work: Work) -> dict[str, Any]:
    """What is written of a share that could not be attached or detached: only a detach leads out of it."""
    return {"share": {"id": work.action.arguments["share_uuid"], "values": {"status": objects.ERROR}}}


def mount_all(host: Host, instance: Instance) -> None:
    """Before the guest starts. Run again it finds what is mounted."""
    for share in usable(instance):
        host.driver.mount_share(instance, share)


def unmount_all(host: Host, instance: Instance) -> None:
    """After the guest has ended; what is not mounted is no error."""
    for share in instance.shares:
        host.driver.unmount_share(instance, share)


def release_all(host: Host, instance: Instance) -> None:
    """The server goes: so does its access."""
    for share in instance.shares:
        _release(host, instance, share)


def usable(instance: Instance) -> list[ShareAttachment]:
    """Those that a guest is given."""
    return [s for s in instance.shares if s.status in (objects.INACTIVE, objects.ACTIVE)]


def with_status(instance: Instance, status: str) -> dict[str, Any]:
    """The columns that say that the guest has its shares now, or has them no more."""
    if not instance.shares:
        return {}
    mine = {s.uuid for s in usable(instance)}
    return {"shares": [(replace(s, status=status) if s.uuid in mine else s).to_primitive() for s in instance.shares]}


def _release(host: Host, instance: Instance, share: ShareAttachment) -> None:
    host.driver.unmount_share(instance, share)
    if not host.conductor.share_is_used(admin_context(), host.name, share.share_id, instance.uuid):
        host.share.deny(admin_context(), share.share_id, host.conf.my_ip)


def _share(work: Work) -> ShareAttachment | None:
    return next((s for s in work.instance.shares if s.uuid == work.action.arguments["share_uuid"]), None)


VERBS: dict[str, Callable[[Work], None]] = {"attach_share": attach, "detach_share": detach}
