"""Changes of a server's record: name, description, addresses, metadata, tags, the zone that it is pinned to."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from nova_lite import exception, operations
from nova_lite.compute.api import validate
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext
from nova_lite.db import aggregates, instance_tags, instances, quotas
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import FloatingIP
from nova_lite.operations import record_changes

Metadata = dict[str, str]


class Changes(Base):
    """Each is one transaction that locks the server's row first, so that two changes at once do not undo each other."""

    def update(self, context: RequestContext, uuid: str, values: Mapping[str, Any]) -> None:
        """Change columns that the user may set. Raises InstanceNotFound, Conflict for a zone to pin it to that it is not in."""
        self.db.write(_update, self.conf, uuid, dict(values))

    def set_metadata(self, context: RequestContext, uuid: str, change: Callable[[Metadata], Metadata]) -> Metadata:
        """Replace the metadata by what ``change`` makes of it, and return that. Raises MetadataLimitExceeded and, when the
        server's state does not allow it, InstanceIsLocked or InstanceInvalidState."""
        return self.db.write(_set_metadata, self.conf, context, uuid, change)

    def replace_tags(self, context: RequestContext, uuid: str, tags: list[str]) -> list[str]:
        """Make ``tags`` the only ones."""
        return self.db.write(_replace_tags, uuid, tags)

    def add_tag(self, context: RequestContext, uuid: str, tag: str) -> bool:
        """False when the server has the tag already; raises Invalid when it has as many as it may."""
        return self.db.write(_add_tag, uuid, tag)

    def remove_tag(self, context: RequestContext, uuid: str, tag: str) -> None:
        """Raises TagNotFound."""
        self.db.write(_remove_tag, uuid, tag)

    def add_security_group(self, context: RequestContext, instance: Instance, name: str) -> None:
        """Put the server's nics into a group; raises as ``GroupsAPI.add``."""
        group = self.network.groups.add(context, instance, name)
        self.db.write(_change_groups, instance.uuid, lambda names: [*names, group.name])

    def remove_security_group(self, context: RequestContext, instance: Instance, name: str) -> None:
        """Remove the server's nics from a group; raises as ``GroupsAPI.remove``."""
        group = self.network.groups.remove(context, instance, name)
        self.db.write(_change_groups, instance.uuid, lambda names: [one for one in names if one != group.name])

    def associate_floating_ip(self, context: RequestContext, instance: Instance, address: str,
                              fixed_address: str | None = None) -> None:
        """Let a floating IP lead to an address of a server, its first IPv4 address if none is named. Raises NotFound for an
        unknown floating IP, Invalid for a server that has no such address."""
        port_id, fixed = _nic_of(instance, address, fixed_address)
        floating = self.network.floating_ips.find(context, address)
        self.network.floating_ips.associate(context, floating.id, port_id, fixed)
        self.db.write(_change_floating_ips, instance.uuid, address, fixed)

    def disassociate_floating_ip(self, context: RequestContext, instance: Instance, floating: FloatingIP) -> None:
        """Let a floating IP lead nowhere any more."""
        self.network.floating_ips.associate(context, floating.id, None, None)
        self.db.write(_change_floating_ips, instance.uuid, floating.address, None)


def _nic_of(instance: Instance, address: str, wanted: str | None) -> tuple[str, str]:
    """Port and fixed address of a server for a floating IP."""
    found = [(vif.id, ip) for vif in instance.network_info for ip in vif.fixed_ips]
    if not found:
        raise exception.Invalid("No fixed IPs associated to instance")
    for port_id, fixed in found:
        if fixed.address == wanted or (wanted is None and fixed.version == 4):
            return port_id, fixed.address
    if wanted is not None:
        raise exception.Invalid(f"Specified fixed address {wanted} is not assigned to the instance")
    raise exception.Invalid(f"Unable to associate floating IP {address}: instance {instance.uuid} has no IPv4 address.")


def _change_floating_ips(connection: sa.Connection, uuid: str, address: str, fixed_address: str | None) -> None:
    """Change the cached addresses, so that views show the change at once. Later an event makes the host read the addresses from
    the network."""
    instance = instances.get(connection, uuid, lock=True)
    for vif in instance.network_info:
        for fixed in vif.fixed_ips:
            fixed.floating_ips = [one for one in fixed.floating_ips if one != address]
            if fixed.address == fixed_address:
                fixed.floating_ips.append(address)
    instances.update(connection, uuid, {"network_info": instance.network_info})


def _update(connection: sa.Connection, conf: cfg.ConfigOpts, uuid: str, values: dict[str, Any]) -> None:
    zone = values.get("pinned_availability_zone")
    if zone is not None:
        _check_pinning(connection, conf, instances.get(connection, uuid, lock=True), zone)
    instances.update(connection, uuid, values)


def _check_pinning(connection: sa.Connection, conf: cfg.ConfigOpts, instance: Instance, zone: str) -> None:
    """Raise Conflict unless the server is pinned to ``zone`` already, or to none and in that zone."""
    pinned, here = instance.pinned_availability_zone, instance.availability_zone
    if pinned is not None and pinned != zone:
        raise exception.Conflict(f"Cannot pin instance {instance.uuid} to availability zone {zone}: it is pinned to {pinned}. "
                                 "Unpin it first, with pinned_availability_zone null.")
    if instance.host:
        here = aggregates.zone_of(connection, instance.host) or conf.compute.default_availability_zone
    if pinned is None and here != zone:
        raise exception.Conflict(f"Cannot pin instance {instance.uuid} to availability zone {zone}: it is in {here or 'none'}.")


def _set_metadata(connection: sa.Connection, conf: cfg.ConfigOpts, context: RequestContext, uuid: str,
                  change: Callable[[Metadata], Metadata]) -> Metadata:
    instance = instances.get(connection, uuid, lock=True)
    operations.check(record_changes.UPDATE_METADATA, instance, may_override_lock=bool(context.is_admin))
    changed = change(dict(instance.metadata))
    limits = quotas.limits_for(connection, conf, instance.project_id)
    validate.check_metadata_quota(changed, limits["metadata_items"])
    instances.update(connection, uuid, {"metadata": changed})
    return changed


def _change_groups(connection: sa.Connection, uuid: str, change: Callable[[list[str]], list[str]]) -> None:
    """The names that views show: the network has the truth, and has been changed already."""
    instance = instances.get(connection, uuid, lock=True)
    instances.update(connection, uuid, {"security_groups": list(dict.fromkeys(change(instance.security_groups)))})


def _lock_for_tags(connection: sa.Connection, uuid: str) -> None:
    operations.check(record_changes.UPDATE_TAGS, instances.get(connection, uuid, lock=True))


def _replace_tags(connection: sa.Connection, uuid: str, tags: list[str]) -> list[str]:
    _lock_for_tags(connection, uuid)
    return instance_tags.replace(connection, uuid, tags)


def _add_tag(connection: sa.Connection, uuid: str, tag: str) -> bool:
    _lock_for_tags(connection, uuid)
    known = instance_tags.get(connection, uuid)
    if tag in known:
        return False
    if len(known) >= instance_tags.MAX_TAGS:
        raise exception.Invalid(f"The number of tags exceeded the per-server limit {instance_tags.MAX_TAGS}")
    return instance_tags.add(connection, uuid, tag)


def _remove_tag(connection: sa.Connection, uuid: str, tag: str) -> None:
    _lock_for_tags(connection, uuid)
    if not instance_tags.remove(connection, uuid, tag):
        raise exception.TagNotFound(server_id=uuid, tag=tag)
