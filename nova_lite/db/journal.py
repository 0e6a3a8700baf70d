"""What a transaction did to servers and their actions, for those who are told of it after its commit.

``core.Database`` opens a journal for each transaction when somebody listens (see ``notifications``), and none otherwise. The
functions that write servers and actions note here what they touch; nothing else has to know.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy as sa

from nova_lite.db import models
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance

INSTANCES, ACTIONS, TAGS = models.instances, models.instance_actions, models.instance_tags
_KEY = "nova_lite_journal"


class Listener(Protocol):
    """Who wants to know. ``tell`` must neither fail nor wait."""

    def tell(self, journal: Journal) -> None:
        """A transaction was committed."""

    def close(self) -> None:
        """No more will come."""


@dataclass
class Change:
    """A server before and after; ``before`` is None for a new one. ``context`` is that of the request behind it, if known."""

    before: Instance | None
    after: Instance
    context: dict[str, Any] | None = None


@dataclass
class Journal:
    """The notes of one transaction; the results stand there when it was closed. ``services`` are the records as they are now,
    with what was done to them: create, update or delete."""

    started: list[Action] = field(default_factory=list)
    finished: list[Action] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)
    services: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _before: dict[str, Instance | None] = field(default_factory=dict)
    _contexts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _ended: set[int] = field(default_factory=set)

    def touch(self, conn: sa.Connection, uuids: Collection[str]) -> None:
        """These servers are about to be changed."""
        unknown = set(uuids) - self._before.keys()
        if unknown:
            self._before.update(_read(conn, unknown))

    def create(self, uuids: Iterable[str]) -> None:
        """These servers are new."""
        self._before.update(dict.fromkeys(uuids))

    def asked_by(self, uuids: Iterable[str], context: Mapping[str, Any]) -> None:
        """What is done with these servers belongs to this request."""
        self._contexts.update(dict.fromkeys(uuids, {**context, "user_id": context.get("user")}))

    def worked_on(self, actions: Iterable[Action]) -> None:
        """As :meth:`asked_by`, for actions that a worker reports on."""
        for action in actions:
            self._contexts.setdefault(action.instance_uuid, _context(action))

    def start(self, actions: Iterable[Action]) -> None:
        """Somebody took these actions up."""
        self.started += actions

    def finish(self, action_ids: Iterable[int]) -> None:
        """These actions ended, well or not."""
        self._ended.update(action_ids)

    def close(self, conn: sa.Connection) -> None:
        """Read what has become of it, as the last thing of the transaction."""
        if self._ended:
            query = sa.select(ACTIONS).where(ACTIONS.c.id.in_(sorted(self._ended))).order_by(ACTIONS.c.id)
            self.finished = [Action.from_primitive(dict(row._mapping)) for row in conn.execute(query)]
        wanted = {*self._before, *(a.instance_uuid for a in (*self.started, *self.finished))}
        if not wanted:
            return
        self.worked_on([*self.started, *self.finished])
        now = _read(conn, wanted, tags=True)
        for uuid, after in now.items():
            self.changes[uuid] = Change(self._before.get(uuid, after), after, self._contexts.get(uuid))


def open_on(conn: sa.Connection) -> Journal:
    """Begin to note what this transaction does."""
    journal = Journal()
    conn.execution_options(**{_KEY: journal})
    return journal


def of(conn: sa.Connection) -> Journal | None:
    """The journal of this transaction; None when nobody listens."""
    return conn.get_execution_options().get(_KEY)


def _read(conn: sa.Connection, uuids: Collection[str], tags: bool = False) -> dict[str, Instance]:
    rows = conn.execute(sa.select(INSTANCES).where(INSTANCES.c.uuid.in_(sorted(uuids))))
    found = {row.uuid: Instance.from_primitive(dict(row._mapping)) for row in rows}
    if tags and found:
        for uuid, tag in conn.execute(sa.select(TAGS.c.instance_uuid, TAGS.c.tag).where(TAGS.c.instance_uuid.in_(found))):
            found[uuid].tags.append(tag)
    return found


def _context(action: Action) -> dict[str, Any]:
    return {**(action.context or {}), "request_id": action.request_id, "user_id": action.user_id,
            "project_id": action.project_id}
