"""Shares of files for servers: checked with the user's token. Then the server's host gets access, and mounts them when it
starts the guest.
"""
from __future__ import annotations

import uuid as uuids

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, operations
from nova_lite.compute.api.base import Base, Prepared
from nova_lite.context import RequestContext
from nova_lite.db import hosts
from nova_lite.objects import share as objects
from nova_lite.objects.instance import Instance
from nova_lite.objects.share import Share, ShareAttachment

LOG = log.getLogger(__name__)
PROTOCOLS = ("NFS", "CEPHFS")
TRAIT = "COMPUTE_STORAGE_VIRTIO_FS"


class Shares(Base):
    """The part of the compute API for the Shared File System service."""

    def attach_share(self, context: RequestContext, instance: Instance, share_id: str, tag: str | None) -> ShareAttachment:
        """Begin to give a stopped server a share; the attachment as it is so far.

        Raises SharesNotSupported (403), ShareNotFound (404), ShareUnusable and ShareAlreadyAttached (409), and what
        ``states.check`` raises (409).
        """
        operations.check(operations.VERBS["attach_share"], instance, may_override_lock=bool(context.is_admin))
        self._check_host(instance)
        share = self.share.get(context, share_id)
        _check_share(share)
        made = ShareAttachment(str(uuids.uuid4()), share.id, tag or share.id, objects.ATTACHING, share.export_location,
                               share.protocol)

        def add(_connection: sa.Connection, locked: Instance) -> Prepared:
            if any(made.share_id == s.share_id or made.tag == s.tag for s in locked.shares):
                raise exception.ShareAlreadyAttached(share_id=made.share_id, tag=made.tag)
            return Prepared({"shares": [*locked.shares, made]})

        self.operate(context, instance.uuid, "attach_share", {"share_uuid": made.uuid}, add)
        return made

    def detach_share(self, context: RequestContext, instance: Instance, share_id: str) -> None:
        """Begin to take a share away. Raises ShareNotFound (404), and what ``states.check`` raises (409)."""
        operations.check(operations.VERBS["detach_share"], instance, may_override_lock=bool(context.is_admin))
        found = find(instance, share_id)

        def mark(_connection: sa.Connection, locked: Instance) -> Prepared:
            find(locked, share_id).status = objects.DETACHING
            return Prepared({"shares": locked.shares})

        self.operate(context, instance.uuid, "detach_share", {"share_uuid": found.uuid}, mark)

    def _check_host(self, instance: Instance) -> None:
        with self.db.read() as connection:
            traits = hosts.traits_of(connection, instance.host) if instance.host else []
        if TRAIT not in traits:
            raise exception.SharesNotSupported(reason="the hypervisor of its host cannot give files to guests")


def find(instance: Instance, share_id: str) -> ShareAttachment:
    """What the server has of a share. Raises ShareNotFound."""
    found = next((s for s in instance.shares if s.share_id == share_id), None)
    if found is None:
        raise exception.ShareNotFound(share_id=share_id)
    return found


def _check_share(share: Share) -> None:
    if share.status != objects.AVAILABLE:
        raise exception.ShareUnusable(share_id=share.id, reason=f"is in '{share.status}' instead of 'available' status")
    if share.export_location is None:
        raise exception.ShareUnusable(share_id=share.id, reason="has no export location")
    if share.protocol not in PROTOCOLS:
        raise exception.ShareUnusable(share_id=share.id, reason=f"has the protocol {share.protocol}, which is not supported")
