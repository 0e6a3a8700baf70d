"""PCI devices that hosts offer, and the consumer of each. A device is taken and released together with the room of its server,
in one transaction (``db/claims.py``), after the row of the node was changed: so transactions about devices of one node are
serialised.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import models
from nova_lite.objects.hardware import pci
from nova_lite.objects.hardware.pci import PciDevice, Pool

T = models.pci_devices
_TOLD = ("vendor_id", "product_id", "dev_type", "numa_node", "parent")
# a device in use counts also when it is no longer offered: the card of a device in use must not be given away
_COUNTS = sa.or_(T.c.gone.is_(False), T.c.consumer.is_not(None))


def report(conn: sa.Connection, node_id: int, told: Sequence[Mapping[str, Any]]) -> None:
    """What a node offers now. A device that it offers no more, and that a server has, stays that server's."""
    known = {row.address: row for row in conn.execute(sa.select(T).where(T.c.compute_node_id == node_id).with_for_update())}
    now = units.utcnow()
    gone = [row.id for address, row in known.items() if address not in {device["address"] for device in told}]
    if gone:
        conn.execute(sa.delete(T).where(T.c.id.in_(gone), T.c.consumer.is_(None)))
        conn.execute(sa.update(T).where(T.c.id.in_(gone)).values(gone=True, updated_at=now))
    new = []
    for device in told:
        row, values = known.get(device["address"]), {name: device.get(name) for name in _TOLD}
        if row is None:
            new.append({"compute_node_id": node_id, "address": device["address"], "created_at": now, "gone": False, **values})
        elif row.gone or any(getattr(row, name) != value for name, value in values.items()):
            conn.execute(sa.update(T).where(T.c.id == row.id).values(gone=False, updated_at=now, **values))
    if new:
        conn.execute(sa.insert(T), new)


def free(conn: sa.Connection) -> dict[Pool, list[tuple[int, int]]]:
    """Pool -> (node id, number of its free devices) for each node that has some. A device is not free while a server has its
    physical function, or one of its virtual functions."""
    other = T.alias()
    related = sa.exists().where(other.c.compute_node_id == T.c.compute_node_id, other.c.consumer.is_not(None),
                                sa.or_(other.c.address == T.c.parent, other.c.parent == T.c.address))
    kind = T.c.vendor_id, T.c.product_id, T.c.dev_type
    query = sa.select(T.c.compute_node_id, sa.func.count(), *kind).where(
        T.c.consumer.is_(None), T.c.gone.is_(False), sa.or_(T.c.dev_type == pci.STANDARD, ~related)).group_by(
        T.c.compute_node_id, *kind)
    found: dict[Pool, list[tuple[int, int]]] = defaultdict(list)
    for node_id, count, *values in conn.execute(query):
        found[Pool(*values)].append((node_id, count))
    return dict(found)


def take(conn: sa.Connection, consumer: str, node_id: int, asked: Sequence[Mapping[str, Any]]) -> bool:
    """Give devices of a node to a server, each only while it is free. False when there are too few: then the whole claim of the
    caller is void."""
    query = sa.select(T).where(T.c.compute_node_id == node_id, _COUNTS).order_by(T.c.address).with_for_update()
    chosen = pci.choose([_device(row) for row in conn.execute(query)], asked)
    if chosen is None:
        return False
    done = conn.execute(sa.update(T).where(T.c.compute_node_id == node_id, T.c.address.in_(chosen), T.c.consumer.is_(None))
                        .values(consumer=consumer, updated_at=units.utcnow()))
    return done.rowcount == len(chosen)


def release(conn: sa.Connection, held: Collection[tuple[str, int]]) -> None:
    """Release the devices of these, each (consumer, node id)."""
    for consumer, node_id in held:
        conn.execute(sa.update(T).where(T.c.consumer == consumer, T.c.compute_node_id == node_id)
                     .values(consumer=None, updated_at=units.utcnow()))


def rename(conn: sa.Connection, consumer: str, new_consumer: str, node_id: int | None = None) -> None:
    """Give the devices of ``consumer`` to another consumer (on one node only, when named)."""
    query = sa.update(T).where(T.c.consumer == consumer)
    if node_id is not None:
        query = query.where(T.c.compute_node_id == node_id)
    conn.execute(query.values(consumer=new_consumer, updated_at=units.utcnow()))


def held_by(conn: sa.Connection, consumers: Collection[str]) -> dict[str, list[dict[str, str]]]:
    """consumer -> [{"address", "host", "consumer"}] of what it has, by address."""
    nodes = models.compute_nodes
    query = sa.select(T.c.consumer, T.c.address, nodes.c.host).join(nodes, nodes.c.id == T.c.compute_node_id).where(
        T.c.consumer.in_(sorted(consumers))).order_by(T.c.address)
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in conn.execute(query):
        found[row.consumer].append({"address": row.address, "host": row.host, "consumer": row.consumer})
    return dict(found)


def forget_node(conn: sa.Connection, node_ids: Collection[int]) -> None:
    """These nodes are gone."""
    conn.execute(sa.delete(T).where(T.c.compute_node_id.in_(sorted(node_ids))))


def _device(row: sa.Row) -> PciDevice:
    return PciDevice.from_primitive(dict(row._mapping))
