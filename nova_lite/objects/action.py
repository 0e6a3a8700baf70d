"""One durable action (a row of ``instance_actions``) as its worker gets it."""
from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record

PENDING, RUNNING, DONE, ERROR = "pending", "running", "done", "error"
API, CONDUCTOR, COMPUTE = "api", "conductor", "compute"
GUEST_AT = "guest_at"       # in the arguments of a build, evacuation or rescue: the host whose guest may have begun to run


@dataclass
class Action(Record):
    """``verb`` is the key of ``operations.VERBS``: what is to be done, where ``action`` is only the public name. ``step`` says
    at which step of the verb it stands (None: the state of its server tells it), ``stage`` who has to work on it (api: the
    request that wrote it), ``host`` which compute host; ``arguments`` are plain JSON."""

    id: int
    instance_uuid: str
    action: str
    request_id: str
    state: str = PENDING
    stage: str | None = None
    host: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] | None = None
    owner: str | None = None
    lease_until: datetime.datetime | None = None
    attempts: int = 0
    user_id: str | None = None
    project_id: str | None = None
    start_time: datetime.datetime | None = None
    finish_time: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    message: str | None = None
    verb: str = ""
    step: str | None = None

    @classmethod
    def from_primitive(cls, values: Mapping[str, Any]) -> Action:
        """As of any record. Verb and step may be columns, or arguments that an older release has written."""
        return super().from_primitive({**values, **verb_and_step(values)})


# Releases before this one know verb and step as arguments only, and run beside this one during an upgrade. So both are written,
# and what the arguments say is read: it is never older than the columns. The next release can drop these functions.
def verb_and_step(row: Mapping[str, Any]) -> dict[str, str | None]:
    """``verb`` and ``step`` of an action. One that was done at once (lock, unlock ...) has no verb but its name."""
    arguments = row.get("arguments") or {}
    return {"verb": arguments.get("verb") or row.get("verb") or row["action"],
            "step": step_of_older(arguments) or row.get("step")}


def step_of_older(arguments: Mapping[str, Any]) -> str | None:
    """The step that the arguments of an action say, if any."""
    told = "undo" if "undo" in arguments else "return" if arguments.get("at_source") else None
    return arguments.get("step") or told


def for_older(step: str) -> dict[str, Any]:
    """The arguments that say the step; who undoes a cold move gives its reason as ``undo``."""
    return {"step": step, **({"at_source": True} if step == "return" else {})}
