"""Differences between the guests of a host and its servers: power states, missing guests and guests that must not be there."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_log import log

from nova_lite.conductor import host_access
from nova_lite.db import instances, models, moves
from nova_lite.objects import states
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
T = models.instances
_FOUND = {(states.ACTIVE, states.SHUTDOWN): states.STOPPED, (states.ACTIVE, states.CRASHED): states.STOPPED,
          (states.STOPPED, states.RUNNING): states.ACTIVE, (states.PAUSED, states.RUNNING): states.ACTIVE,
          (states.ACTIVE, states.POWER_PAUSED): states.PAUSED, (states.PAUSED, states.SHUTDOWN): states.STOPPED,
          (states.SUSPENDED, states.RUNNING): states.ACTIVE}


class UnexpectedGuests(NamedTuple):
    """Servers whose guests must be removed from a host, and servers whose guests stay because it is not known why they are
    there."""

    remove: list[Instance]
    unexplained: list[Instance]

    def to_primitive(self) -> dict[str, Any]:
        """For the host."""
        return {"remove": [i.to_primitive() for i in self.remove],
                "unexplained": [{"uuid": i.uuid, "host": None} for i in self.unexplained]}


def unexpected_guests(conn: sa.Connection, found: Mapping[str, Instance], host: str,
                      evacuated: Mapping[str, bool] | None = None) -> UnexpectedGuests:
    """Which guests must not be on this host: their servers are deleted, or are at rest on another host. A guest that a move has
    set aside stays until the user confirms. A guest whose server is evacuated is removed once the new host has begun: before
    that, on shared storage, its files are the only copy of the server.

    The guest of a server that exists is removed only when the database shows that the server was, or was to be, at this host.
    Else the host may have a new name, or the database may be older than a move, and the guest may be the only copy of the
    server. ``evacuated``: the result of :func:`_evacuated` for these servers, when the caller has it.
    """
    if evacuated is None:
        evacuated = _evacuated(conn, host, found)
    lost = {uuid for uuid in found if evacuated.get(uuid)}
    candidates = [i for i in found.values() if _is_unexpected(i, host)]
    kept = moves.kept_on(conn, host, [i.uuid for i in candidates]) if candidates else set()
    gone = {i.uuid for i in candidates if i.deleted or i.uuid not in kept} | lost
    unwanted = [i for i in found.values() if i.uuid in gone]
    was_here = host_access.formerly_of_host(conn, host, [i.uuid for i in unwanted])
    # a host learns no more than the id of a deleted server that was never its own
    remove = [host_access.without_secrets(i) if i.uuid in was_here else host_access.minimal(i)
              for i in unwanted if i.deleted or i.uuid in was_here]
    return UnexpectedGuests(remove, [i for i in unwanted if not i.deleted and i.uuid not in was_here])


def _evacuated(conn: sa.Connection, host: str, uuids: Collection[str]) -> dict[str, bool]:
    """``moves.evacuated``, for servers that are or were at a host."""
    found = moves.evacuated(conn, host, uuids)
    its = host_access.of_host(conn, host, found) | host_access.formerly_of_host(conn, host, found)
    return {uuid: begun for uuid, begun in found.items() if uuid in its}


def _is_unexpected(instance: Instance, host: str) -> bool:
    return bool(instance.deleted) or (instance.host != host and (instance.host is None or instance.task_state is None))


def settled(conn: sa.Connection, host: str, uuids: Collection[str]) -> set[str]:
    """Those of the servers of a host that have moved from or to it and have no open move: no revert can need what was set aside
    there. A restored old database may have no move of a server: then the files stay."""
    mine = set(conn.scalars(sa.select(T.c.uuid).where(T.c.uuid.in_(sorted(uuids)), T.c.host == host, T.c.deleted == 0)))
    return moves.from_or_to(conn, host, mine) - moves.kept_on(conn, host, mine)


def must_be_off(conn: sa.Connection, host: str, uuids: Collection[str]) -> set[str]:
    """Those of the servers whose guests must not run on a host: soft-deleted or shelved servers, and servers whose evacuation
    has chosen a new host."""
    return _must_stay_off(conn, host, uuids) | set(_evacuated(conn, host, uuids))


def _must_stay_off(conn: sa.Connection, host: str, uuids: Collection[str]) -> set[str]:
    return set(conn.scalars(sa.select(T.c.uuid).where(
        T.c.uuid.in_(sorted(uuids)), T.c.host == host, T.c.deleted == 0, T.c.task_state.is_(None),
        T.c.vm_state.in_((states.SOFT_DELETED, states.SHELVED)))))


def compare(conn: sa.Connection, host: str, found: Mapping[str, int]) -> dict[str, Any]:
    """The differences between the guests of a host and its servers; see ``ConductorAPI.sync_power_states``.

    The guests may have changed since the host read their states, so nothing is written here. The host reads the state of each
    guest of ``look`` again when no operation works on it, and reports it (:func:`sync`). Before it turns a guest off or removes
    it, it asks for that guest again. So one query for evacuations is enough here.
    """
    rows = conn.execute(sa.select(T.c.uuid, T.c.power_state, T.c.vm_state, T.c.task_state)
                        .where(T.c.host == host, T.c.deleted == 0)).all()
    running = [uuid for uuid, state in found.items() if state not in (states.NOSTATE, states.SHUTDOWN)]
    evacuated = _evacuated(conn, host, found)
    off = {uuid for uuid in running if uuid in evacuated} | (_must_stay_off(conn, host, running) if running else set())
    look = [row.uuid for row in rows if row.task_state is None and row.vm_state != states.ERROR and row.uuid not in off
            and found.get(row.uuid, states.NOSTATE) != row.power_state]
    settled = {row.uuid for row in rows if row.task_state is None} - set(evacuated)
    others = instances.get_many(conn, set(found) - settled, deleted=True)
    unexpected = unexpected_guests(conn, others, host, evacuated)
    unknown = set(found) - {row.uuid for row in rows} - set(others)
    # a server in another power state may have been built after the host read its guests: ``look`` has it
    missing = [row.uuid for row in rows if (row.task_state, row.power_state) == (None, states.NOSTATE)
               and row.vm_state != states.ERROR and row.uuid not in found]
    return {"look": look, "off": sorted(off - {i.uuid for i in unexpected.remove}), "unknown": sorted(unknown),
            "missing": missing, **unexpected.to_primitive()}


def sync(conn: sa.Connection, host: str, found: Mapping[str, int]) -> None:
    """Write the power states of guests to their servers. Servers with an operation under way are left alone."""
    for instance in instances.get_many(conn, list(found), lock=True).values():
        if instance.host == host and instance.task_state is None:
            _settle(conn, instance, found[instance.uuid])


def _settle(conn: sa.Connection, instance: Instance, power_state: int) -> None:
    vm_state = _FOUND.get((instance.vm_state, power_state), instance.vm_state)
    if (vm_state, power_state) == (instance.vm_state, instance.power_state):
        return
    LOG.log(log.WARNING if power_state == states.NOSTATE else log.INFO,
            "the guest was found in power state %s: %s becomes %s", states.POWER_NAMES.get(power_state, power_state),
            instance.vm_state, vm_state, extra={"instance_uuid": instance.uuid})
    instances.update(conn, instance.uuid, {"vm_state": vm_state, "power_state": power_state}, expected_task_states=[None])
