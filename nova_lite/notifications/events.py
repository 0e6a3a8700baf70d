"""Which notifications follow from what a transaction did."""
from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nova_lite import operations
from nova_lite.db.journal import Change, Journal
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.operations import steps

START, END, ERROR = "start", "end", "error"
# a resize has three parts, which begin and end with the server's task_state
_PARTS = {step.task_state: step.part for step in steps.COLD if step.part is not None}
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line \d+, in (?P<function>\S+)')


@dataclass(frozen=True)
class Event:
    """``create.start`` of a server, or ``update`` without phase. ``host`` is where it happened, None: in a control service."""

    name: str
    phase: str | None
    instance: Instance
    context: dict[str, Any]
    host: str | None
    before: Instance | None = None
    fault: Fault | None = None
    volume_id: str | None = None
    new_volume_id: str | None = None
    image_id: str | None = None         # of a snapshot

    @property
    def text(self) -> str:
        """``create.start``."""
        return f"{self.name}.{self.phase}" if self.phase else self.name


@dataclass(frozen=True)
class Fault:
    """The reason of a failure, from the server's fault."""

    exception: str
    message: str
    module: str
    function: str
    traceback: str


def of(journal: Journal) -> Iterator[Event]:
    """The notifications of one transaction: what began, what changed, what ended."""
    failed = {a.id for a in journal.finished if a.state == objects.ERROR}
    for action in journal.started:
        if action.id not in failed:
            yield from _steps(journal, action, START)
    for change in journal.changes.values():
        if _is_update(change):
            yield Event("update", None, change.after, change.context or {}, change.after.host, change.before)
        yield from _parts(change)
        yield from _locks(change)
    for action in journal.finished:
        if action.state in (objects.DONE, objects.ERROR):
            yield from _steps(journal, action, ERROR if action.id in failed else END)


def _steps(journal: Journal, action: Action, phase: str) -> Iterator[Event]:
    verb, change = operations.VERBS.get(action.verb), journal.changes.get(action.instance_uuid)
    if verb is None or change is None:
        return
    if verb.move is not None and verb.move.kind is operations.MoveKind.LIVE:
        yield from _live(verb, action, change, phase)
        return
    name = verb.notification
    if name is None or _is_inside_a_move(verb, action, phase):
        return
    if phase == START and action.stage != objects.COMPUTE and verb.notification_at_conductor is not None:
        yield Event(verb.notification_at_conductor, None, change.after, change.context or {}, None)
        return
    if phase == START and action.stage != objects.COMPUTE and verb.new_server:
        return      # only a place is looked for
    host = action.host or change.after.host
    fault = fault_of(change.after) if phase == ERROR else None
    event = Event(name, phase, change.after, change.context or {}, host, fault=fault,
                  volume_id=action.arguments.get("volume_id"), new_volume_id=action.arguments.get("new_volume_id"),
                  image_id=action.arguments.get("image_id"))
    # the guest is shut down as a part of its delete
    around = [Event("shutdown", phase, change.after, change.context or {}, host)] if name == "delete" and host \
        and phase != ERROR else []
    yield from ([event, *around] if phase == START else [*around, event])


def _live(verb: operations.Verb, action: Action, change: Change, phase: str) -> Iterator[Event]:
    """The parts of a live migration, by the step that begins: what it was asked of the conductor is none."""
    step, host = operations.named(verb.steps, action.step), action.host or change.after.host
    begun = step.notifications if step is not None and action.stage == objects.COMPUTE else ()
    parts: tuple[tuple[str, str], ...] = ()
    if phase == START:
        parts = begun
    elif phase == END:
        parts = ((steps.ARRIVAL, END),)
    elif (steps.ROLLBACK, START) in begun:
        parts = ((steps.ROLLBACK, END),)
    for name, when in parts:
        yield Event(name, when, change.after, change.context or {}, host)


def _locks(change: Change) -> Iterator[Event]:
    if change.before is not None and bool(change.before.locked) != bool(change.after.locked):
        yield Event("lock" if change.after.locked else "unlock", None, change.after, change.context or {}, None)


def _is_inside_a_move(verb: operations.Verb, action: Action, phase: str) -> bool:
    """True for changes that :func:`_parts` reports in more detail, and for hosts that continue the work of another one."""
    if verb.is_cold_move:
        return phase != ERROR
    return phase == START and action.step == steps.RETURN


def _parts(change: Change) -> Iterator[Event]:
    """The parts of a resize that ended and began by this change."""
    if change.before is None or change.before.task_state == change.after.task_state:
        return
    before, after = change.before.task_state, change.after.task_state
    done = before if before in _PARTS else states.RESIZE_MIGRATED if before == states.RESIZE_FINISH else None
    went_on = after in states.RESIZE_STATES or change.after.vm_state == states.RESIZED
    if done is not None and went_on and after != states.RESIZE_FINISH:
        yield Event(_PARTS[done], END, change.after, change.context or {}, change.after.host)
    if after in _PARTS:
        yield Event(_PARTS[after], START, change.after, change.context or {}, change.after.host)


def _is_update(change: Change) -> bool:
    before, after = change.before, change.after
    return before is None or (before.vm_state, before.task_state, before.display_name) != (
        after.vm_state, after.task_state, after.display_name)


def fault_of(instance: Instance) -> Fault | None:
    """The fault of a server, taken apart; None when it has none."""
    if not instance.fault:
        return None
    message, details = str(instance.fault.get("message") or ""), str(instance.fault.get("details") or "")
    frames = list(_FRAME.finditer(details))
    last = next((line for line in reversed(details.splitlines()) if line and not line[0].isspace()), "")
    name = last.partition(":")[0].rpartition(".")[2] if frames else ""
    where = frames[-1] if frames else None
    return Fault(exception=name if name.isidentifier() else "NovaLiteError", message=message,
                 module=_module(where["file"]) if where else "", function=where["function"] if where else "",
                 traceback=details)


def _module(path: str) -> str:
    """The module of a source file, from its path."""
    text = path.removesuffix(".py")
    for start in ("/site-packages/", "/nova_lite/"):
        head, found, tail = text.rpartition(start)
        if found:
            text = tail if start == "/site-packages/" else f"nova_lite/{tail}"
            break
    return text.strip("/").replace("/", ".")


def audit_period(now: datetime.datetime) -> tuple[datetime.datetime, datetime.datetime]:
    """The current month up to now, as billing counts it."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0), now


POWER_STATES = {states.NOSTATE: "pending", states.RUNNING: "running", states.POWER_PAUSED: "paused",
                states.SHUTDOWN: "shutdown", states.CRASHED: "crashed", states.POWER_SUSPENDED: "suspended"}
"""Their names in notifications."""


def image_property(instance: Instance, *names: str) -> str | None:
    """The first of these properties that the server's image has."""
    properties = instance.image.properties if instance.image else {}
    return next((str(properties[name]) for name in names if properties.get(name)), None)
