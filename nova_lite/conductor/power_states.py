"""Differences between the guests of a host and its servers: power states, missing guests and guests that must not be there."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_log import log

from nova_lite.conductor import host_access
from nova_lite.db import instances, models, moves, server_states
from nova_lite.db.server_states import ServerState
from nova_lite.objects import states
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
T = models.instances
_FOUND = {(states.ACTIVE, states.SHUTDOWN): states.STOPPED, (states.ACTIVE, states.CRASHED): states.STOPPED,
          (states.STOPPED, states.RUNNING): states.ACTIVE, (states.PAUSED, states.RUNNING): states.ACTIVE,
          (states.ACTIVE, states.POWER_PAUSED): states.PAUSED, (states.PAUSED, states.SHUTDOWN): states.STOPPED,
          (states.SUSPENDED, states.RUNNING): states.ACTIVE}


# a host of the release before makes whole records of its servers
_FOR_OLDER_HOSTS: dict[str, Any] = {
    "project_id": "", "user_id": "", "display_name": "",
    "flavor": {"flavorid": "", "name": "", "memory_mb": 0, "vcpus": 0, "root_gb": 0}}


class UnexpectedGuests(NamedTuple):
    """Servers whose guests must be removed from a host, and servers whose guests stay because it is not known why they are
    there. ``remove``: server -> whether the server was at the host, which then may read more of it."""

    remove: dict[str, bool]
    unexplained: list[str]


class Look(NamedTuple):
    """The power states of all guests of a host, as it has read them."""

    host: str
    found: Mapping[str, int]


def unexpected_guests(conn: sa.Connection, found: Mapping[str, ServerState], host: str,
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
    candidates = [state for state in found.values() if _is_unexpected(state, host)]
    kept = moves.kept_on(conn, host, [state.uuid for state in candidates]) if candidates else set()
    gone = {state.uuid for state in candidates if state.deleted or state.uuid not in kept} | lost
    unwanted = [state for state in found.values() if state.uuid in gone]
    was_here = host_access.formerly_of_host(conn, host, [state.uuid for state in unwanted])
    return UnexpectedGuests(
        {state.uuid: state.uuid in was_here for state in unwanted if state.deleted or state.uuid in was_here},
        [state.uuid for state in unwanted if not state.deleted and state.uuid not in was_here])


def removals(conn: sa.Connection, remove: Mapping[str, bool]) -> list[dict[str, Any]]:
    """For the host: what it needs to remove these guests. It learns no more than the id of a deleted server that was never its
    own."""
    found = instances.get_many(conn, remove, deleted=True, tags=False).values()
    return [(host_access.without_secrets(i) if remove[i.uuid] else host_access.minimal(i)).to_primitive() for i in found]


def for_host(state: ServerState) -> dict[str, Any]:
    """For a host that starts: what it has to know of one of its servers."""
    return {"uuid": state.uuid, "host": state.host, "vm_state": state.vm_state, "task_state": state.task_state,
            **_FOR_OLDER_HOSTS}


def _evacuated(conn: sa.Connection, host: str, uuids: Collection[str],
               evacuations: Sequence[moves.Evacuation] | None = None) -> dict[str, bool]:
    """Those of the servers that are or were at a host, and are being evacuated to another one; True: it has begun.
    ``evacuations``: those of these servers, and maybe of more, when the caller has read them."""
    if evacuations is None:
        evacuations = moves.evacuations(conn, uuids)
    found: dict[str, bool] = {}
    for server, new_host, has_begun in evacuations:
        if server in uuids and new_host != host:
            found[server] = found.get(server, False) or has_begun
    its = host_access.of_host(conn, host, found) | host_access.formerly_of_host(conn, host, found)
    return {uuid: begun for uuid, begun in found.items() if uuid in its}


def _is_unexpected(state: ServerState, host: str) -> bool:
    return bool(state.deleted) or (state.host != host and (state.host is None or state.task_state is None))


def settled(conn: sa.Connection, host: str, uuids: Collection[str]) -> set[str]:
    """Those of the servers of a host that have moved from or to it and have no open move: no revert can need what was set aside
    there. A restored old database may have no move of a server: then the files stay."""
    mine = set(conn.scalars(sa.select(T.c.uuid).where(T.c.uuid.in_(sorted(uuids)), T.c.host == host, T.c.deleted == 0)))
    return moves.from_or_to(conn, host, mine) - moves.kept_on(conn, host, mine)


def must_be_off(conn: sa.Connection, host: str, uuids: Collection[str]) -> set[str]:
    """Those of the servers whose guests must not run on a host: soft-deleted or shelved servers, and servers whose evacuation
    has chosen a new host."""
    found = server_states.of(conn, uuids).values()
    return {state.uuid for state in found if _must_stay_off(state, host)} | set(_evacuated(conn, host, uuids))


def _must_stay_off(state: ServerState, host: str) -> bool:
    return (state.host, state.deleted, state.task_state) == (host, 0, None) and state.vm_state in (
        states.SOFT_DELETED, states.SHELVED)


def compare(conn: sa.Connection, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """For each host, the differences between its guests and its servers; see ``ConductorAPI.sync_power_states``. Hosts without
    a difference cost three queries, however many they are.

    The guests may have changed since the host read their states, so nothing is written here. The host reads the state of each
    guest of ``look`` again when no operation works on it, and reports it (:func:`sync`). Before it turns a guest off or removes
    it, it asks for that guest again. So one query for evacuations is enough here.
    """
    servers = server_states.with_guests(conn, [(look.host, look.found) for look in looks])
    evacuations = moves.evacuations(conn, {uuid for look in looks for uuid in look.found})
    return [_compare(conn, look.host, look.found, *states, _evacuated(conn, look.host, look.found, evacuations))
            for look, states in zip(looks, servers, strict=True)]


def _compare(conn: sa.Connection, host: str, found: Mapping[str, int], here: Mapping[str, ServerState],
             of_guests: Mapping[str, ServerState], evacuated: Mapping[str, bool]) -> dict[str, Any]:
    running = [uuid for uuid, state in found.items() if state not in (states.NOSTATE, states.SHUTDOWN)]
    off = {uuid for uuid in running if uuid in evacuated or (uuid in here and _must_stay_off(here[uuid], host))}
    at_rest = [one for one in here.values() if one.task_state is None and one.vm_state != states.ERROR]
    look = [one.uuid for one in at_rest if one.uuid not in off and found.get(one.uuid, states.NOSTATE) != one.power_state]
    # a server in another power state may have been built after the host read its guests: ``look`` has it
    missing = [one.uuid for one in at_rest if one.power_state == states.NOSTATE and one.uuid not in found]
    unexpected = unexpected_guests(conn, of_guests, host, evacuated)
    return {"look": look, "off": sorted(off - set(unexpected.remove)), "unknown": sorted(set(found) - set(of_guests)),
            "missing": missing, "remove": removals(conn, unexpected.remove),
            "unexplained": [{"uuid": uuid, "host": None} for uuid in unexpected.unexplained]}


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
