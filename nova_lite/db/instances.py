"""Servers: rows of ``instances`` and the records that the rest of the code works with."""
from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.db import addresses, claims, journal, models, moves, pci_devices
from nova_lite.objects import states
from nova_lite.objects.base import Record
from nova_lite.objects.instance import (
    DEVICE_ADDRESSES,
    DISKS_KEY,
    SHELVING_KEYS,
    UNSHELVED_HOST,
    UNSHELVED_IMAGE,
    Instance,
)

T = models.instances
_TIMES = {c.name for c in T.columns if isinstance(c.type, sa.DateTime)}
_DEFAULTS: dict[str, Any] = {"vm_state": "building", "task_state": None, "metadata": {}, "system_metadata": {},
                             "network_info": [], "security_groups": [], "scheduler_hints": {}}


def to_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as the columns hold them: records become JSON, ISO times datetimes; keys that are no column raise KeyError."""
    made = {}
    for key, value in values.items():
        if key not in T.c:
            raise KeyError(f"instances has no column {key}")
        made[key] = _column_value(key, value)
    if "network_info" in made:
        made["addresses"] = addresses.text(made["network_info"])
    return made


def _column_value(key: str, value: Any) -> Any:
    if key in _TIMES and isinstance(value, str):
        return datetime.datetime.fromisoformat(value).replace(tzinfo=None)
    if isinstance(value, Record):
        return value.to_primitive()
    if isinstance(value, list):
        return [v.to_primitive() if isinstance(v, Record) else v for v in value]
    return value


def from_rows(conn: sa.Connection, rows: Iterable[sa.Row], with_tags: bool = True) -> list[Instance]:
    """Records of whole rows of ``instances``; their tags come by one more query."""
    found = [Instance.from_primitive(dict(row._mapping)) for row in rows]
    if found and with_tags:
        tags = models.instance_tags
        by_uuid = {i.uuid: i for i in found}
        query = sa.select(tags.c.instance_uuid, tags.c.tag).where(tags.c.instance_uuid.in_(by_uuid)).order_by(tags.c.tag)
        for uuid, tag in conn.execute(query):
            by_uuid[uuid].tags.append(tag)
    _add_devices(conn, [i for i in found if i.flavor.pci_requests or i.task_state in states.RESIZE_STATES])
    return found


def _add_devices(conn: sa.Connection, servers: Sequence[Instance]) -> None:
    """The PCI devices that they hold, and those that their moves hold."""
    if not servers:
        return
    by_holder = {i.uuid: i for i in servers}
    by_holder |= {move.uuid: by_holder[move.instance_uuid] for move in moves.open_of(conn, list(by_holder))}
    for holder, held in pci_devices.held_by(conn, by_holder).items():
        by_holder[holder].pci_devices += held


def create_many(conn: sa.Connection, servers: Sequence[Mapping[str, Any]]) -> None:
    """Insert servers: dictionaries with ``uuid``, ``project_id``, ``user_id``, ``display_name``, ``flavor`` and what is known.

    vcpus, memory_mb, root_gb and flavor_ref follow from the flavor when they are not given.
    """
    now = units.utcnow()
    rows, tags = [], []
    for server in servers:
        values = {"created_at": now, **_DEFAULTS, **server}
        tags += [{"instance_uuid": server["uuid"], "tag": tag} for tag in values.pop("tags", None) or ()]
        row = to_columns(values)
        flavor = row["flavor"]
        for column, source in (("vcpus", "vcpus"), ("memory_mb", "memory_mb"), ("root_gb", "root_gb"),
                               ("flavor_ref", "flavorid")):
            row.setdefault(column, flavor[source])
        row.setdefault("updated_at", row["created_at"])      # what was never changed is found among changes by its making
        rows.append(row)
    if rows:
        # one executemany needs the same keys in each row; None is the default of what is not the same
        keys = {key for row in rows for key in row}
        conn.execute(sa.insert(T), [{**dict.fromkeys(keys), **row} for row in rows])
    if tags:
        conn.execute(sa.insert(models.instance_tags), tags)
    notes = journal.of(conn)
    if notes is not None:
        notes.create(server["uuid"] for server in servers)


def _note(conn: sa.Connection, uuids: Collection[str]) -> None:
    """Note the former states of these servers in the journal, for notifications."""
    notes = journal.of(conn)
    if notes is not None:
        notes.touch(conn, uuids)


def get(conn: sa.Connection, uuid: str, deleted: bool = False, lock: bool = False) -> Instance:
    """One server; a deleted one only when ``deleted``. ``lock`` keeps the row from others until the transaction ends."""
    query = sa.select(T).where(T.c.uuid == uuid)
    if not deleted:
        query = query.where(T.c.deleted == 0)
    if lock:
        query = query.with_for_update()
    found = from_rows(conn, conn.execute(query).all())
    if not found:
        raise exception.InstanceNotFound(instance_id=uuid)
    return found[0]


def get_many(conn: sa.Connection, uuids: Collection[str], deleted: bool = False, lock: bool = False,
             tags: bool = True) -> dict[str, Instance]:
    """The servers that exist, by uuid; ``tags`` False leaves theirs out and spares a query."""
    if not uuids:
        return {}
    query = sa.select(T).where(T.c.uuid.in_(sorted(uuids)))
    if not deleted:
        query = query.where(T.c.deleted == 0)
    if lock:
        query = query.order_by(T.c.id).with_for_update()
    return {i.uuid: i for i in from_rows(conn, conn.execute(query).all(), tags)}


def state_in(column: sa.ColumnElement, wanted: Collection[str | None]) -> sa.ColumnElement[bool]:
    """``column`` is one of ``wanted``, where None stands for NULL."""
    texts = sorted(w for w in wanted if w is not None)
    parts: list[sa.ColumnElement[bool]] = []
    if texts:
        parts.append(column.in_(texts))
    if None in wanted:
        parts.append(column.is_(None))
    return sa.or_(*parts) if parts else sa.false()


def update(conn: sa.Connection, uuid: str, values: Mapping[str, Any],
           expected_task_states: Collection[str | None] | None = None,
           expected_vm_states: Collection[str] | None = None) -> None:
    """Change a living server, if its states are the expected ones (None: whatever they are).

    Raises InstanceNotFound or UnexpectedTaskState (``kwargs["actual"]`` says what was found) and changes nothing then.
    """
    _note(conn, [uuid])
    query = sa.update(T).where(T.c.uuid == uuid, T.c.deleted == 0)
    if expected_task_states is not None:
        query = query.where(state_in(T.c.task_state, expected_task_states))
    if expected_vm_states is not None:
        query = query.where(state_in(T.c.vm_state, expected_vm_states))
    changed = conn.execute(query.values(**{"updated_at": units.utcnow(), **to_columns(values)}))
    if changed.rowcount:
        return
    row = conn.execute(sa.select(T.c.vm_state, T.c.task_state).where(T.c.uuid == uuid, T.c.deleted == 0)).first()
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    expected = list(expected_vm_states or ()) + list(expected_task_states or ())
    raise exception.UnexpectedTaskState(instance_id=uuid, expected=expected, actual=row.task_state)


def update_many(conn: sa.Connection, uuids: Collection[str], values: Mapping[str, Any],
                expected_task_states: Collection[str | None] | None = None) -> int:
    """The same change for many living servers; returns how many were in an expected state and so were changed."""
    if not uuids:
        return 0
    _note(conn, uuids)
    query = sa.update(T).where(T.c.uuid.in_(sorted(uuids)), T.c.deleted == 0)
    if expected_task_states is not None:
        query = query.where(state_in(T.c.task_state, expected_task_states))
    return conn.execute(query.values(**{"updated_at": units.utcnow(), **to_columns(values)})).rowcount


def change_block_device(conn: sa.Connection, uuid: str, device_id: str, values: Mapping[str, Any] | None) -> bool:
    """Change one block device of a living server (None: remove it) without touching the others; the row is locked.

    False when the server has no such device (any more). Raises InstanceNotFound.
    """
    query = sa.select(T.c.block_devices).where(T.c.uuid == uuid, T.c.deleted == 0).with_for_update()
    row = conn.execute(query).first()
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    devices = row.block_devices or []
    if all(device["id"] != device_id for device in devices):
        return False
    changed = [device if device["id"] != device_id else {**device, **(values or {})} for device in devices
               if device["id"] != device_id or values is not None]
    update(conn, uuid, {"block_devices": changed})
    return True


def as_host_says(conn: sa.Connection, uuid: str, updates: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a host's report that is written, where it contains all ``block_devices`` or ``system_metadata``. Of the
    devices the host decides only about what it has connected and given to its guest. Of the metadata it decides how far an
    unshelve is, that the server is no longer shelved and, once, the key of its disks. All other values are those of the row,
    which is locked: a user, the guest or another operation may have changed them since the host read them.
    ``updates["device_addresses"]`` is one entry of ``system_metadata``."""
    if not {"block_devices", "system_metadata", DEVICE_ADDRESSES} & set(updates):
        return dict(updates)
    row = conn.execute(sa.select(T.c.block_devices, T.c.system_metadata).where(T.c.uuid == uuid, T.c.deleted == 0)
                       .with_for_update()).first()
    merged = dict(updates)
    if "block_devices" in updates:
        told = {device["id"]: device for device in updates["block_devices"] or ()}
        merged["block_devices"] = [_as_told(device, told.get(device["id"]))
                                   for device in (row.block_devices if row is not None else None) or ()]
    if "system_metadata" in updates and row is not None:
        known, told = row.system_metadata, updates["system_metadata"]
        merged["system_metadata"] = {
            **{key: value for key, value in known.items() if key in told or key not in SHELVING_KEYS},
            **{key: told[key] for key in (UNSHELVED_IMAGE, UNSHELVED_HOST, DISKS_KEY)
               if key in told and not (key == DISKS_KEY and key in known)}}
    if DEVICE_ADDRESSES in updates:
        places = merged.pop(DEVICE_ADDRESSES)
        if row is not None:
            merged["system_metadata"] = {**merged.get("system_metadata", row.system_metadata), DEVICE_ADDRESSES: places}
    return merged


def _as_told(device: Mapping[str, Any], told: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """One device of the row with the host's report; a report about another volume, from before a swap, is ignored."""
    if told is None or device.get("volume_id") not in (None, told.get("volume_id")):
        return device
    return {**device, "volume_id": told.get("volume_id"),
            "attachment_id": told.get("attachment_id") or device.get("attachment_id"),
            "connection_info": told.get("connection_info"), "attached": bool(told.get("attached"))}


def change_share(conn: sa.Connection, uuid: str, share_uuid: str, values: Mapping[str, Any] | None) -> bool:
    """The same for one share of files, named by its own uuid."""
    row = conn.execute(sa.select(T.c.shares).where(T.c.uuid == uuid, T.c.deleted == 0).with_for_update()).first()
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    shares = row.shares or []
    if all(share["uuid"] != share_uuid for share in shares):
        return False
    update(conn, uuid, {"shares": [share if share["uuid"] != share_uuid else {**share, **(values or {})} for share in shares
                                   if share["uuid"] != share_uuid or values is not None]})
    return True


def share_is_used(conn: sa.Connection, host: str, share_id: str, besides: str) -> bool:
    """Whether another living server of a host has the share."""
    query = sa.select(T.c.shares).where(T.c.host == host, T.c.deleted == 0, T.c.uuid != besides, T.c.shares.is_not(None))
    return any(share["share_id"] == share_id for (shares,) in conn.execute(query) for share in shares or ())


def change_nic(conn: sa.Connection, uuid: str, port_id: str, nic: Mapping[str, Any] | None) -> bool:
    """Put one nic of a living server into the place of that with the same port, or add it (None: remove it); the row is locked.

    False when there is nothing to remove. Raises InstanceNotFound.
    """
    row = conn.execute(sa.select(T.c.network_info).where(T.c.uuid == uuid, T.c.deleted == 0).with_for_update()).first()
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    nics = list(row.network_info or [])
    place = next((number for number, known in enumerate(nics) if known["id"] == port_id), len(nics))
    changed = [*nics[:place], *([dict(nic)] if nic is not None else []), *nics[place + 1:]]
    if nic is None and place == len(nics):
        return False
    update(conn, uuid, {"network_info": changed})
    return True


def forget_connections(conn: sa.Connection, uuid: str) -> None:
    """The host that has connected the volumes of this server is not its host any more."""
    row = conn.execute(sa.select(T.c.block_devices).where(T.c.uuid == uuid, T.c.deleted == 0).with_for_update()).first()
    if row is not None and row.block_devices:
        update(conn, uuid, {"block_devices": [{**device, "connection_info": None, "attached": False}
                                              for device in row.block_devices]})


def mark_deleted(conn: sa.Connection, uuid: str) -> bool:
    """The server is gone: nothing of it counts any more. False when it was marked before (nothing changes then)."""
    return mark_many_deleted(conn, [uuid]) == 1


def mark_many_deleted(conn: sa.Connection, uuids: Collection[str]) -> int:
    """Mark servers as deleted, take them out of their groups, drop their tags, give back their claims."""
    if not uuids:
        return 0
    _note(conn, uuids)
    now = units.utcnow()
    chosen = sorted(uuids)
    changed = conn.execute(
        sa.update(T).where(T.c.uuid.in_(chosen), T.c.deleted == 0)
        .values(deleted=T.c.id, deleted_at=now, terminated_at=now, updated_at=now, vm_state="deleted", task_state=None,
                power_state=0, personality=None))
    for table in (models.instance_tags, models.server_group_members):
        conn.execute(sa.delete(table).where(table.c.instance_uuid.in_(chosen)))
    claims.release_many(conn, [*chosen, *moves.holders(conn, chosen)])
    return changed.rowcount


def purge(conn: sa.Connection, before: datetime.datetime, limit: int = 1000) -> int:
    """Remove servers that were deleted before a time, with their actions and events, for good; returns how many."""
    rows = conn.execute(sa.select(T.c.id, T.c.uuid).where(T.c.deleted != 0, T.c.deleted_at < before).limit(limit)).all()
    if not rows:
        return 0
    uuids = [row.uuid for row in rows]
    actions, events = models.instance_actions, models.instance_action_events
    ids = conn.execute(sa.select(actions.c.id).where(actions.c.instance_uuid.in_(uuids))).scalars().all()
    if ids:
        conn.execute(sa.delete(events).where(events.c.action_id.in_(ids)))
        conn.execute(sa.delete(actions).where(actions.c.id.in_(ids)))
    conn.execute(sa.delete(models.migrations).where(models.migrations.c.instance_uuid.in_(uuids)))
    conn.execute(sa.delete(T).where(T.c.id.in_([row.id for row in rows])))
    return len(rows)
