"""Which servers a compute host may access, and which parts of their records.

A host that works on a server reads all of it. A host that had the server before reads what it needs to remove the rest there,
without the user's secrets. Any other host reads nothing.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import actions, instances, models, moves, security_groups
from nova_lite.objects import action as objects
from nova_lite.objects import migration
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import PASSWORD_KEYS, Instance

_SERVERS, _ACTIONS, _MOVES = models.instances, models.instance_actions, models.migrations
_HELD, _NODES = models.allocations, models.compute_nodes
_PORTS, _MEMBERS = models.ports, security_groups.MEMBERS
_CREDENTIALS = ("auth_", "discovery_auth_")      # of a storage backend, in connection_info


def of_host(conn: sa.Connection, host: str, uuids: Collection[str]) -> set[str]:
    """Those of the servers that are on a host, hold room there, have an open action there or an open move from or to it."""
    if not uuids:
        return set()
    some = sorted(set(uuids))
    here = sa.select(_SERVERS.c.uuid).where(_SERVERS.c.uuid.in_(some), _SERVERS.c.host == host, _SERVERS.c.deleted == 0)
    worked_on = sa.select(_ACTIONS.c.instance_uuid).where(
        _ACTIONS.c.instance_uuid.in_(some), _ACTIONS.c.host == host, _ACTIONS.c.state.in_(actions.OPEN),
        _ACTIONS.c.stage == objects.COMPUTE)
    moving = sa.select(_MOVES.c.instance_uuid).where(
        _MOVES.c.instance_uuid.in_(some), _MOVES.c.status.not_in(migration.ENDED),
        sa.or_(_MOVES.c.source_compute == host, _MOVES.c.dest_compute == host))
    placed = sa.select(_HELD.c.instance_uuid).join(_NODES, _NODES.c.id == _HELD.c.compute_node_id).where(
        _HELD.c.instance_uuid.in_(some), _NODES.c.host == host)
    return set(conn.scalars(sa.union(here, worked_on, moving, placed)))


def formerly_of_host(conn: sa.Connection, host: str, uuids: Collection[str]) -> set[str]:
    """Those of the servers that the database shows to have had an action, or a move, at a host at any time."""
    return moves.from_or_to(conn, host, uuids) | actions.were_at(conn, host, uuids) if uuids else set()


def readable(conn: sa.Connection, host: str | None, server: Instance) -> Instance:
    """The part of a server that a host (None: a control service) may read. Raises HostNotAllowed."""
    if host is None or server.host == host or of_host(conn, host, [server.uuid]):
        return server
    if formerly_of_host(conn, host, [server.uuid]):
        return without_secrets(server)
    raise _not_its_own(host, server.uuid)


def check(conn: sa.Connection, host: str | None, uuid: str, or_was_deleted: bool = False) -> None:
    """Raise HostNotAllowed when a server is not at a host or on its way there; with ``or_was_deleted`` a deleted server that
    was there is allowed too."""
    if host is None or of_host(conn, host, [uuid]):
        return
    if or_was_deleted and not instances.get_many(conn, [uuid], tags=False) and formerly_of_host(conn, host, [uuid]):
        return
    raise _not_its_own(host, uuid)


def check_ports(conn: sa.Connection, host: str | None, uuid: str, project_id: str) -> None:
    """Raise HostNotAllowed when a host may not make ports of a project for a server."""
    if host is None:
        return
    check(conn, host, uuid)
    found = instances.get_many(conn, [uuid], tags=False).get(uuid)
    if found is not None and found.project_id != project_id:
        raise exception.HostNotAllowed(host=host, reason=f"server {uuid} is not of project {project_id}")


def check_destination(conn: sa.Connection, host: str | None, uuid: str, to: str) -> None:
    """Raise HostNotAllowed when a host may not bind the ports of a server to host ``to``, which is not one of its hosts."""
    check(conn, host, uuid)
    if host is not None and to != host and not of_host(conn, to, [uuid]):
        raise exception.HostNotAllowed(host=host, reason=f"server {uuid} is not on its way to host {to}")


def groups_of(conn: sa.Connection, host: str, group_ids: Collection[str]) -> set[str]:
    """Those of the security groups that have a port of a host, or of a server that is on its way there."""
    query = sa.select(_MEMBERS.c.group_uuid, _PORTS.c.host, _PORTS.c.instance_uuid).join(
        _PORTS, _PORTS.c.uuid == _MEMBERS.c.port_uuid).where(_MEMBERS.c.group_uuid.in_(sorted(group_ids)))
    rows = conn.execute(query.distinct()).all()
    found = {row.group_uuid for row in rows if row.host == host}
    rest = [row for row in rows if row.group_uuid not in found and row.instance_uuid]
    coming = of_host(conn, host, {row.instance_uuid for row in rest})
    return found | {row.group_uuid for row in rest if row.instance_uuid in coming}


def without_secrets(server: Instance) -> Instance:
    """A server for a host that removes what is left of it: without its user's data and without passwords."""
    return dataclasses.replace(
        server, user_data=None, personality=None, keypair=None, metadata={}, shares=[],
        system_metadata={key: value for key, value in server.system_metadata.items() if key not in PASSWORD_KEYS},
        block_devices=[_without_credentials(device) for device in server.block_devices])


def minimal(server: Instance) -> Instance:
    """The fields by which a hypervisor finds the guest of a server, and no others."""
    return Instance(server.uuid, "", "", "", server.flavor, id=server.id, vm_state=server.vm_state, deleted=server.deleted)


def _without_credentials(device: BlockDevice) -> BlockDevice:
    info = device.connection_info
    if not info or not isinstance(info.get("data"), Mapping):
        return device
    data: dict[str, Any] = {key: value for key, value in info["data"].items() if not key.startswith(_CREDENTIALS)}
    return dataclasses.replace(device, connection_info={**info, "data": data})


def _not_its_own(host: str, uuid: str) -> exception.HostNotAllowed:
    return exception.HostNotAllowed(host=host, reason=f"server {uuid} does not belong to this host")
