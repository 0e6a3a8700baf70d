"""Durable actions: what is to be done, by whom, and until when its worker may be silent.

An action is open while its state is pending (nobody works on it) or running (``owner`` holds it until ``lease_until``).
``lease_until`` of a pending action is when the sweeper wakes somebody up for it, and of a failed one when its deferred
clean-up is due, if it needs any (``conductor/deferred_cleanup.py``). A worker that was silent for longer than its lease loses
the action: whoever claims it next is the owner, and what the old one still writes is refused.

Secrets among the arguments are sealed (``db/sealed.py``) from here to the claim of the host that needs them, and go when the
action ends.
"""
from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import exception, operations, units
from nova_lite.context import RequestContext
from nova_lite.db import clock, galera, journal, models, sealed
from nova_lite.objects import action as objects
from nova_lite.objects.action import Action

T = models.instance_actions
E = models.instance_action_events
OPEN = (objects.PENDING, objects.RUNNING)
# see conductor/deferred_cleanup.py
NEED_CLEANUP = sorted({row.action for row in operations.VERBS.values() if row.pending_cleanup is not None})
LOOK_SECONDS = 60.0                     # between two tries to clean up after a failed action
REASON_LENGTH = 255
TAKEN_OVER = "The server was deleted, or something else was begun with it, before this was done"
WAIT_EVENT = "wait_for_scheduler"
_OPEN_WAIT = sa.and_(E.c.event == WAIT_EVENT, E.c.finish_time.is_(None))


def _record(row: sa.Row) -> Action:
    return Action.from_primitive(dict(row._mapping))


def _id_of(made: sa.CursorResult) -> int:
    key = made.inserted_primary_key
    assert key is not None
    return key[0]


def lease(seconds: float) -> datetime.datetime:
    """The end of a lease that starts now, by our own clock: of rows that are written many at once. All others are given and
    looked at by the database's (``db/clock.py``)."""
    return units.utcnow() + datetime.timedelta(seconds=seconds)


def create(conn: sa.Connection, context: RequestContext, verb: str, instance_uuids: Sequence[str], lease_seconds: float,
           stage: str = objects.COMPUTE, host: str | None = None, arguments: Mapping[str, Any] | None = None) -> list[int]:
    """Write down one verb (``verb``: a key of ``operations.VERBS``) for some servers; returns the ids, in order.

    Goes into the transaction that changes the servers' task_state, before the 202. The sweeper leaves the actions alone for
    ``lease_seconds``, in which the cast that follows the transaction should have found a worker.
    """
    notes = journal.of(conn)
    if notes is not None:
        notes.asked_by(instance_uuids, context.to_rpc())
    now = units.utcnow()
    row = operations.VERBS[verb]
    common = {"action": row.action, "verb": verb, "request_id": context.request_id, "user_id": context.user_id,
              "project_id": context.project_id, "start_time": now, "created_at": now, "updated_at": now,
              "state": objects.PENDING, "stage": stage, "host": host, "context": context.to_rpc(), "attempts": 0,
              "lease_until": lease(lease_seconds), "arguments": sealed.seal(conn, {**(arguments or {}), "verb": verb})}
    if len(instance_uuids) == 1:
        made = conn.execute(sa.insert(T).values(instance_uuid=instance_uuids[0], **common))
        return [_id_of(made)]
    conn.execute(sa.insert(T), [{"instance_uuid": uuid, **common} for uuid in instance_uuids])
    query = sa.select(sa.func.max(T.c.id), T.c.instance_uuid).where(
        T.c.instance_uuid.in_(instance_uuids), T.c.request_id == context.request_id).group_by(T.c.instance_uuid)
    ids = {uuid: action_id for action_id, uuid in conn.execute(query)}
    return [ids[uuid] for uuid in instance_uuids]


def record(conn: sa.Connection, context: RequestContext, action: str, instance_uuid: str, error: str | None = None) -> int:
    """Note an action that is done already (lock, unlock ...), for os-instance-actions."""
    notes = journal.of(conn)
    if notes is not None:
        notes.asked_by([instance_uuid], context.to_rpc())
    now = units.utcnow()
    made = conn.execute(sa.insert(T).values(
        instance_uuid=instance_uuid, action=action, request_id=context.request_id, user_id=context.user_id,
        project_id=context.project_id, start_time=now, finish_time=now, created_at=now, updated_at=now, arguments={},
        state=objects.ERROR if error else objects.DONE, message=error[:REASON_LENGTH] if error else None,
        attempts=0))
    return _id_of(made)


def claim(conn: sa.Connection, ids: Collection[int], owner: str, lease_seconds: float, stage: str,
          host: str | None = None) -> list[Action]:
    """Become the owner of those of the actions that wait at ``stage`` (on ``host``) and that nobody else holds.

    Of two workers that claim at once one gets the action; the other's list is without it. The row lock that decides it
    ends with the transaction.
    """
    free = sa.or_(T.c.state == objects.PENDING, sa.and_(T.c.state == objects.RUNNING, T.c.lease_until < clock.after(conn)))
    query = sa.select(T).where(T.c.id.in_(sorted(ids)), T.c.stage == stage, free)
    if host is not None:
        query = query.where(T.c.host == host)
    found = [_record(row) for row in conn.execute(query.order_by(T.c.id).with_for_update())]
    note_start(conn, [a for a in found if a.state == objects.PENDING])
    take(conn, found, owner, lease_seconds)
    return found


def note_start(conn: sa.Connection, found: Sequence[Action]) -> None:
    """Whoever listens gets to know that a worker took up actions that nobody worked on."""
    notes = journal.of(conn)
    if notes is not None:
        notes.start(found)


def lock(conn: sa.Connection, ids: Collection[int]) -> dict[int, Action]:
    """Actions by id, whatever their state, kept from others until the transaction ends."""
    query = sa.select(T).where(T.c.id.in_(sorted(ids))).order_by(T.c.id).with_for_update()
    found = {row.id: _record(row) for row in conn.execute(query)}
    notes = journal.of(conn)
    if notes is not None:
        notes.worked_on(found.values())
    return found


def is_free_for(conn: sa.Connection, action: Action, owner: str) -> bool:
    """True when ``owner`` may take the action, which is locked (or has it already: it may ask again after a lost answer)."""
    if action.state != objects.RUNNING or action.owner == owner:
        return action.state in OPEN
    # our own clock first: it spares the question, and decides over what this transaction has just given to another
    return action.lease_until is not None and action.lease_until < units.utcnow() and action.lease_until < clock.read(conn)


def take(conn: sa.Connection, found: Sequence[Action], owner: str, lease_seconds: float) -> None:
    """Become the owner of actions that this transaction has locked and found free."""
    if not found:
        return
    now, until = units.utcnow(), lease(lease_seconds)
    conn.execute(sa.update(T).where(T.c.id.in_([a.id for a in found]))
                 .values(state=objects.RUNNING, owner=owner, lease_until=clock.after(conn, lease_seconds), updated_at=now))
    for action in found:
        action.state, action.owner, action.lease_until, action.updated_at = objects.RUNNING, owner, until, now


def held(conn: sa.Connection, ids: Collection[int], owner: str) -> dict[int, Action]:
    """Those of the actions that ``owner`` holds, locked until the transaction ends. What is not in it is lost."""
    query = sa.select(T).where(T.c.id.in_(sorted(ids)), T.c.state == objects.RUNNING, T.c.owner == owner)
    found = {row.id: _record(row) for row in conn.execute(query.order_by(T.c.id).with_for_update())}
    galera.change_locked(conn, T, found)
    return found


def check_held(conn: sa.Connection, action_id: int, owner: str) -> Action:
    """The action, locked; raises LeaseLost when ``owner`` does not hold it any more."""
    found = held(conn, [action_id], owner)
    if action_id not in found:
        raise exception.LeaseLost(action_id=action_id, owner=owner)
    return found[action_id]


def renew(conn: sa.Connection, owner: str, ids: Collection[int], lease_seconds: float) -> int:
    """Lengthen the leases that ``owner`` still holds; returns how many those are."""
    if not ids:
        return 0
    return conn.execute(sa.update(T).where(T.c.id.in_(sorted(ids)), T.c.owner == owner, T.c.state == objects.RUNNING)
                        .values(lease_until=clock.after(conn, lease_seconds))).rowcount


def keep_prepared(conn: sa.Connection, ids: Collection[int], lease_seconds: float) -> None:
    """The request that wrote these down still prepares them: those that it has not handed over are left alone for longer. A
    lease that is longer already stays."""
    until = clock.after(conn, lease_seconds)
    conn.execute(sa.update(T).where(T.c.id.in_(sorted(ids)), T.c.stage == objects.API, T.c.state == objects.PENDING,
                                    T.c.lease_until < until).values(lease_until=until))


def for_worker(conn: sa.Connection, action: Action) -> dict[str, Any]:
    """The action as plain JSON for the host that has claimed it, with its secrets. Raises ConfigError where no key fits."""
    return {**action.to_primitive(), "arguments": sealed.unseal(conn, action.arguments)}


def set_arguments(conn: sa.Connection, action_id: int, arguments: Mapping[str, Any]) -> None:
    """Write down what was found out on the way. The caller holds the action in this transaction."""
    conn.execute(sa.update(T).where(T.c.id == action_id).values(arguments=sealed.seal(conn, arguments)))


def hand_over(conn: sa.Connection, ids: Collection[int], lease_seconds: float, stage: str, host: str | None = None,
              arguments: Mapping[str, Any] | None = None, step: str | None = None) -> None:
    """Let go of actions, for the worker of the next stage. The caller holds them in this transaction. ``step``, which goes with
    ``arguments``: where they stand from now on (None: where they were)."""
    values: dict[str, Any] = {"state": objects.PENDING, "stage": stage, "host": host, "owner": None,
                              "lease_until": clock.after(conn, lease_seconds), "updated_at": units.utcnow()}
    if step is not None:
        assert arguments is not None
        values["step"], arguments = step, {**arguments, **objects.for_older(step)}
    if arguments is not None:
        values["arguments"] = sealed.seal(conn, arguments)
    conn.execute(sa.update(T).where(T.c.id.in_(sorted(ids))).values(**values))


def finish(conn: sa.Connection, ids: Collection[int], error: str | None = None,
           arguments: Mapping[str, Any] | None = None) -> None:
    """Close actions. The owner stays written: it may repeat its report after a lost answer.

    ``error``: why they have failed, as the server's user may read it. ``arguments`` are what is kept of them (None: as they
    are). Secrets are kept of none, whatever ``arguments`` say.
    """
    if not ids:
        return
    notes = journal.of(conn)
    if notes is not None:
        notes.finish(ids)
    now = units.utcnow()
    failed = error is not None
    values: dict[str, Any] = {"state": objects.ERROR if failed else objects.DONE, "finish_time": now, "updated_at": now,
                              "message": error[:REASON_LENGTH] if error is not None else None, "lease_until": None}
    if arguments is not None:
        values["arguments"] = sealed.without(arguments)
    conn.execute(sa.update(T).where(T.c.id.in_(sorted(ids))).values(**values))
    if failed:
        schedule_cleanup(conn, ids)
    if arguments is None:
        _forget_secrets(conn, ids)


def schedule_cleanup(conn: sa.Connection, ids: Collection[int]) -> None:
    """Schedule the deferred clean-up of those of the actions that have failed and may need it."""
    conn.execute(sa.update(T).where(T.c.id.in_(sorted(ids)), T.c.state == objects.ERROR, T.c.action.in_(NEED_CLEANUP))
                 .values(lease_until=clock.after(conn, LOOK_SECONDS)))


def next_cleanup(conn: sa.Connection) -> Action | None:
    """A failed action whose clean-up is due. Nobody else gets it for the next LOOK_SECONDS."""
    query = sa.select(T).where(T.c.state == objects.ERROR, T.c.lease_until < clock.after(conn)).order_by(T.c.lease_until)
    row = conn.execute(query.limit(1).with_for_update(skip_locked=True)).first()
    if row is None:
        return None
    conn.execute(sa.update(T).where(T.c.id == row.id).values(lease_until=clock.after(conn, LOOK_SECONDS)))
    return _record(row)


def cleanup_done(conn: sa.Connection, action_id: int) -> None:
    """The deferred clean-up of a failed action has been done."""
    conn.execute(sa.update(T).where(T.c.id == action_id, T.c.state == objects.ERROR).values(lease_until=None))


def unreadable(conn: sa.Connection) -> list[int]:
    """The ids of open actions that wait for a key: none of ours opens their secrets."""
    found = []
    for row in conn.execute(sa.select(T.c.id, T.c.arguments).where(T.c.state.in_(OPEN), _has_secrets())):
        try:
            sealed.unseal(conn, row.arguments)
        except exception.ConfigError:
            found.append(row.id)
    return found


def _has_secrets() -> sa.ColumnElement[bool]:
    return sa.or_(*(sa.cast(T.c.arguments, sa.Text).contains(f'"{name}"', autoescape=True) for name in sealed.NAMES))


def _forget_secrets(conn: sa.Connection, ids: Collection[int]) -> None:
    for row in conn.execute(sa.select(T.c.id, T.c.arguments).where(T.c.id.in_(sorted(ids)), _has_secrets())).all():
        conn.execute(sa.update(T).where(T.c.id == row.id).values(arguments=sealed.without(row.arguments)))


def event(name: str, host: str | None, start: datetime.datetime, error: str | None = None, traceback: str | None = None,
          finish: datetime.datetime | None = None) -> dict[str, Any]:
    """One step of an action for os-instance-actions, as plain JSON: it may cross RPC before it is stored."""
    return {"event": name, "host": host, "start_time": start.isoformat(), "traceback": traceback,
            "finish_time": (finish or units.utcnow()).isoformat(), "result": "Error" if error else "Success",
            "details": error[:REASON_LENGTH] if error else None}


def add_events(conn: sa.Connection, events: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Store events, given as (action id, what :func:`event` made)."""
    now = units.utcnow()
    rows = []
    for action_id, values in events:
        row = {"action_id": action_id, "created_at": now, "updated_at": now, **values}
        for key in ("start_time", "finish_time"):
            if isinstance(row.get(key), str):
                row[key] = datetime.datetime.fromisoformat(row[key])
        rows.append(row)
    if rows:
        conn.execute(sa.insert(E), rows)


def begin_wait(conn: sa.Connection, ids: Collection[int], host: str | None, start: datetime.datetime, reason: str) -> None:
    """Each of the actions has an open event that says what it waits for. One that has it already keeps it."""
    waiting = set(conn.scalars(sa.select(E.c.action_id).where(E.c.action_id.in_(sorted(ids)), _OPEN_WAIT)))
    values = {**event(WAIT_EVENT, host, start, error=reason), "finish_time": None, "result": None}
    add_events(conn, [(action_id, values) for action_id in sorted(ids) if action_id not in waiting])


def end_wait(conn: sa.Connection, found: Iterable[Action], failed: bool = False) -> None:
    """What the actions waited for has come, or (``failed``) they end without it. Only one that was tried before has waited."""
    tried = sorted(action.id for action in found if action.attempts)
    if tried:
        now = units.utcnow()
        conn.execute(sa.update(E).where(E.c.action_id.in_(tried), _OPEN_WAIT).values(
            finish_time=now, updated_at=now, result="Error" if failed else "Success"))


# what the sweeper and hosts that start look for --------------------------------------------------------------------
def expired(conn: sa.Connection, limit: int = 500) -> list[Action]:
    """Open actions whose lease is over, locked; those that another transaction looks at are left out."""
    query = sa.select(T).where(T.c.state.in_(OPEN), T.c.lease_until < clock.after(conn)).order_by(T.c.id).limit(limit)
    return [_record(row) for row in conn.execute(query.with_for_update(skip_locked=True))]


def release(conn: sa.Connection, ids: Collection[int], lease_seconds: float, died: bool) -> None:
    """Make actions free for the next worker; ``died`` counts an attempt, since their worker went away in the middle."""
    if not ids:
        return
    conn.execute(sa.update(T).where(T.c.id.in_(sorted(ids)), T.c.state.in_(OPEN)).values(
        state=objects.PENDING, owner=None, lease_until=clock.after(conn, lease_seconds), updated_at=units.utcnow(),
        attempts=T.c.attempts + (1 if died else 0)))


def open_of_host(conn: sa.Connection, host: str, lock: bool = False) -> list[Action]:
    """The open actions that wait for or run on one compute host, oldest first."""
    query = sa.select(T).where(T.c.host == host, T.c.state.in_(OPEN), T.c.stage == objects.COMPUTE).order_by(T.c.id)
    return [_record(row) for row in conn.execute(query.with_for_update() if lock else query)]


def were_at(conn: sa.Connection, host: str, instance_uuids: Collection[str]) -> set[str]:
    """Those of the servers of which a host once had something to do, also when another one had it afterwards."""
    rows = conn.execute(sa.select(T.c.instance_uuid, T.c.host, T.c.arguments).where(
        T.c.instance_uuid.in_(sorted(instance_uuids))))
    return {row.instance_uuid for row in rows       # a build that failed there, a build or an evacuation that it died over
            if host in (row.host, *row.arguments.get("tried", ()), *row.arguments.get("ignore_hosts", ()))}


def open_of_instances(conn: sa.Connection, uuids: Collection[str]) -> dict[str, list[Action]]:
    """Open actions by server."""
    found: dict[str, list[Action]] = {}
    if uuids:
        query = sa.select(T).where(T.c.instance_uuid.in_(sorted(uuids)), T.c.state.in_(OPEN)).order_by(T.c.id)
        for row in conn.execute(query):
            found.setdefault(row.instance_uuid, []).append(_record(row))
    return found


def check_not_busy(conn: sa.Connection, verb: str, instance_uuid: str) -> None:
    """Raise InstanceIsBusy when ``verb`` takes a guest away from the host that is about to change something of it, stops one
    that may be frozen, or when the server is being evacuated: it may have been declared idle, but its old host must not start
    a guest. What is done in any state goes on: a delete, another evacuation. The caller has locked the server, as who begins
    such a change does."""
    wanted = operations.VERBS[verb]
    if not wanted.task_states:
        return
    for other, row in operations.known(open_of_instances(conn, [instance_uuid]).get(instance_uuid, ())):
        if row.guest is operations.Guest.RETURNS:
            raise exception.InstanceIsBusy(action=verb.removesuffix("_hard"), instance_id=instance_uuid,
                                           state=f"its evacuation to {other.host or 'another host'}")
        if wanted.waits_for(row):
            raise exception.InstanceIsBusy(action=verb, instance_id=instance_uuid, state=row.action)


# what operators see ------------------------------------------------------------------------------------------------
def list_open(conn: sa.Connection, host: str | None = None, min_age: float = 0.0) -> list[dict[str, Any]]:
    """All open actions, oldest first: the columns of the action, its ``age`` and the seconds that are ``left`` of its lease,
    ``task_state`` and ``server_host`` of its server (None: it is gone), and in ``said`` the last error among its events.
    ``host``: those that a host works on, or whose server is there. ``min_age``: in seconds."""
    servers = models.instances
    query = sa.select(T, servers.c.task_state, servers.c.host.label("server_host")).outerjoin(
        servers, servers.c.uuid == T.c.instance_uuid).where(T.c.state.in_(OPEN))
    if host is not None:
        query = query.where(sa.or_(T.c.host == host, servers.c.host == host))
    now = clock.read(conn)
    if min_age:
        query = query.where(T.c.start_time <= now - datetime.timedelta(seconds=min_age))
    rows = [dict(row._mapping) for row in conn.execute(query.order_by(T.c.start_time, T.c.id))]
    found = [{**row, **objects.verb_and_step(row)} for row in rows]
    said = _last_details(conn, [row["id"] for row in found])
    for row in found:
        row["age"] = max(0.0, (now - row["start_time"]).total_seconds())
        row["left"] = (row["lease_until"] - now).total_seconds() if row["lease_until"] is not None else None
        row["said"] = said.get(row["id"])
    return found


def _last_details(conn: sa.Connection, ids: Sequence[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for some in (ids[start:start + 500] for start in range(0, len(ids), 500)):
        query = sa.select(E.c.action_id, E.c.details).where(E.c.action_id.in_(some), E.c.details.is_not(None))
        found.update((row.action_id, row.details) for row in conn.execute(query.order_by(E.c.id)))
    return found


# what users see ----------------------------------------------------------------------------------------------------
def get(conn: sa.Connection, action_id: int) -> Action | None:
    """One action by its id."""
    row = conn.execute(sa.select(T).where(T.c.id == action_id)).first()
    return _record(row) if row else None


def get_by_request_id(conn: sa.Connection, instance_uuid: str, request_id: str) -> Action:
    """One action of a server; raises ActionNotFound."""
    row = conn.execute(sa.select(T).where(T.c.instance_uuid == instance_uuid, T.c.request_id == request_id)
                       .order_by(T.c.id.desc()).limit(1)).first()
    if row is None:
        raise exception.ActionNotFound(request_id=request_id, instance_id=instance_uuid)
    return _record(row)


def list_for_instance(conn: sa.Connection, instance_uuid: str, limit: int | None = None, marker: str | None = None,
                      changes_since: datetime.datetime | None = None,
                      changes_before: datetime.datetime | None = None) -> list[Action]:
    """Actions of a server, newest first; ``marker`` is the request id after which the page starts (MarkerNotFound)."""
    query = sa.select(T).where(T.c.instance_uuid == instance_uuid)
    if changes_since is not None:
        query = query.where(T.c.updated_at >= changes_since)
    if changes_before is not None:
        query = query.where(T.c.updated_at <= changes_before)
    if marker is not None:
        try:
            query = query.where(T.c.id < get_by_request_id(conn, instance_uuid, marker).id)
        except exception.ActionNotFound:
            raise exception.MarkerNotFound(marker=marker) from None
    if limit is not None:
        query = query.limit(limit)
    return [_record(row) for row in conn.execute(query.order_by(T.c.id.desc()))]


def events_of(conn: sa.Connection, action_id: int) -> list[dict[str, Any]]:
    """The events of an action, newest first, as dictionaries of the columns."""
    query = sa.select(E).where(E.c.action_id == action_id).order_by(E.c.id.desc())
    return [dict(row._mapping) for row in conn.execute(query)]
