"""What a compute host may write while it works on an action, in one table.

The server and the move are those of the action. The columns are those of its verb. The new host and flavor of a server come
from the row of its move, not from the host; the zone is that of the new host. Everything else is refused with HostNotAllowed.
"""
from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations
from nova_lite.db import aggregates, moves
from nova_lite.objects import migration, states
from nova_lite.objects.action import Action
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import DEVICE_ADDRESSES, SHELVED_IMAGE, UNSHELVED_HOST, UNSHELVED_IMAGE
from nova_lite.objects.network import VIF
from nova_lite.objects.share import ShareAttachment

_VM_STATES = frozenset(states.VM_STATES) - {states.DELETED}
_ALWAYS = frozenset({"vm_state", "task_state", "power_state", "progress", DEVICE_ADDRESSES})
_PLACE = frozenset({"host", "node", "launched_on", "availability_zone"})
_SIZE = frozenset({"flavor", "flavor_ref", "vcpus", "memory_mb", "root_gb"})
_DEVICE = frozenset({"volume_id", "attachment_id", "connection_info", "attached", "size"})
_ENDS = (migration.ERROR, migration.FAILED, migration.CANCELLED)
_MOVE = frozenset({"status", "facts"}) | {
    f"{what}_{part}" for what in ("memory", "disk") for part in ("total", "processed", "remaining")}
_EVENT = ("event", "host", "start_time", "finish_time", "result", "traceback", "details")


def server(conn: sa.Connection, action: Action, updates: Mapping[str, Any], default_zone: str,
           failed: bool = False) -> dict[str, Any]:
    """The columns to write when a host reports ``updates``. ``default_zone``: the zone of hosts without one. ``failed``: the
    action ends with an error."""
    verb = operations.of(action)
    _check(action, updates, _ALWAYS | verb.writes, "of a server")
    if updates.get("task_state") not in (None, *verb.working):
        raise _refused(action, f"task_state {updates['task_state']!r}")
    if updates.get("personality") is not None:
        raise _refused(action, "the files of a server")
    check_readable(action.host, updates)
    if updates.get("block_device"):
        device(action, updates["block_device"]["values"])
    if updates.get("nic"):
        nic(action, updates["nic"]["values"])
    _check_shelved_image(action, updates.get("system_metadata") or {})
    written = dict(updates)
    before = action.arguments.get(states.BEFORE) or {}
    for name in ("image", "image_ref", "config_drive"):
        if name in updates and updates[name] != before.get(name, updates):
            raise _refused(action, f"another {name}")
    if (_PLACE | _SIZE) & set(updates):
        written = {name: value for name, value in written.items() if name not in _SIZE}
        written |= _where(conn, action, updates, default_zone, failed)
    return written


def check_readable(host: str | None, updates: Mapping[str, Any]) -> None:
    """Raise HostNotAllowed for columns that cannot be read back: every list with this server would fail."""
    try:
        _read(updates)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise exception.HostNotAllowed(host=host, reason="it writes values that cannot be read back") from error


def _read(updates: Mapping[str, Any]) -> None:
    for vif in updates.get("network_info") or ():
        VIF.from_primitive(vif)
    for share in updates.get("shares") or ():
        ShareAttachment.from_primitive(share)
    for known in updates.get("block_devices") or ():
        BlockDevice.from_primitive(known)
    for name in ("launched_at", "deleted_at"):
        datetime.datetime.fromisoformat(updates.get(name) or "2000-01-01")
    dict(updates.get("system_metadata") or {}).keys()
    if updates.get("vm_state", states.ACTIVE) not in _VM_STATES or updates.get("power_state", 0) not in states.POWER_NAMES:
        raise ValueError


def _check_shelved_image(action: Action, told: Mapping[str, Any]) -> None:
    if told.get(UNSHELVED_HOST) not in (None, action.host) or told.get(UNSHELVED_IMAGE) not in (None, told.get(SHELVED_IMAGE)):
        raise _refused(action, "where another host has brought a server back to")


def _where(conn: sa.Connection, action: Action, updates: Mapping[str, Any], default_zone: str,
           failed: bool) -> dict[str, Any]:
    verb = operations.of(action)
    if "migration_id" not in action.arguments or verb.move is None:
        # a shelved server may lose its host; any other gets the host of its move
        if verb.move is not None or any(updates.get(name) is not None for name in _PLACE):
            raise _refused(action, "where a server is")
        return {}
    move = moves.get(conn, action.arguments["migration_id"])
    back = verb.move.to_source or failed
    host, node = (move.source_compute, move.source_node) if back else (move.dest_compute, move.dest_node)
    if any(updates.get(name, host) != host for name in ("host", "launched_on")):
        raise _refused(action, f"that a server is on host {updates.get('host')}")
    flavor = move.old_flavor if back else move.new_flavor
    found = {"node": node, **_size(flavor)}
    if "availability_zone" in updates:
        found["availability_zone"] = aggregates.zone_of(conn, host) or default_zone
    return {name: value for name, value in found.items() if name in updates}


def _size(flavor: Flavor | None) -> dict[str, Any]:
    if flavor is None:
        return {}
    return {"flavor": flavor.to_primitive(), "flavor_ref": flavor.flavorid, "vcpus": flavor.vcpus,
            "memory_mb": flavor.memory_mb, "root_gb": flavor.root_gb}


def device(action: Action, values: Mapping[str, Any] | None) -> None:
    """Whether a host may write this of a block device (None: that it is gone). Which volume it is only an exchange changes: the
    volumes of a server may be deleted with it."""
    if values is not None:
        _check(action, values, _DEVICE, "of a block device")
        known = {action.arguments.get(name) for name in ("volume_id", "new_volume_id")}
        if "volume_id" in values and (not operations.of(action).exchanges_volume or values["volume_id"] not in known):
            raise _refused(action, f"that a block device is volume {values['volume_id']}")
    elif "block_device" not in operations.of(action).writes or operations.of(action).exchanges_volume:
        raise _refused(action, "that a block device is gone")


def nic(action: Action, values: Mapping[str, Any] | None) -> None:
    """Whether a host may put this nic (None: no nic) into a server's record."""
    if "nic" not in operations.of(action).writes:
        raise _refused(action, "a nic")
    check_readable(action.host, {"network_info": [values] if values is not None else []})


def notes(action: Action, arguments: Mapping[str, Any]) -> None:
    """Check the arguments that a host wants to add to its action. Raises HostNotAllowed."""
    _check(action, arguments, operations.of(action).notes, "of an action")


def move(action: Action, migration_id: int, values: Mapping[str, Any]) -> None:
    """Whether a host may write this of a move."""
    if action.arguments.get("migration_id") != migration_id:
        raise _refused(action, f"move {migration_id}")
    _check(action, values, _MOVE, "of a move")
    row = operations.of(action).move
    if "status" in values and (row is None or values["status"] not in row.statuses[1:]):
        raise _refused(action, f"that its move is {values['status']!r}")


def handed_over(conn: sa.Connection, action: Action, host: str | None, arguments: Mapping[str, Any], step: str | None) -> None:
    """Check a hand-over of an action to another host, at a step and with its arguments. Raises HostNotAllowed."""
    verb = operations.of(action)
    _check(action, arguments, verb.hands_over, "of an action")
    hosts = hosts_of(conn, action)
    if step is not None:
        row = operations.named(verb.steps, step)
        if row is None or row.task_state is not None:       # the task_state tells such a step
            raise _refused(action, f"that it stands at {step!r}")
        hosts = hosts[:1] if row.where is operations.Where.SOURCE else hosts[1:]
    if arguments.get("ends_as", migration.ERROR) not in _ENDS:
        raise _refused(action, f"that its move ends as {arguments['ends_as']!r}")
    if (host is not None or step is not None) and host not in hosts:
        raise _refused(action, f"that host {host} goes on with it")


def hosts_of(conn: sa.Connection, action: Action) -> tuple[str | None, ...]:
    """The hosts of the move that an action is; none where it is no move."""
    if "migration_id" not in action.arguments:
        return ()
    try:
        found = moves.get(conn, action.arguments["migration_id"])
    except exception.MigrationNotFound:     # purged with its server
        return ()
    return found.source_compute, found.dest_compute


def events(action: Action, told: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """The events of this action, from the host that works on it."""
    return [(action.id, {**{name: event.get(name) for name in _EVENT}, "host": action.host}) for event in told]


def _check(action: Action, values: Mapping[str, Any], allowed: Collection[str], what: str) -> None:
    strange = sorted(set(values) - set(allowed))
    if strange:
        raise _refused(action, f"{', '.join(strange)} {what}")


def _refused(action: Action, what: str) -> exception.HostNotAllowed:
    return exception.HostNotAllowed(host=action.host, reason=f"'{operations.of(action).name}' does not write {what}")
