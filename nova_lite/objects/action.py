"""One durable action (a row of ``instance_actions``) as its worker gets it."""
from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record

PENDING, RUNNING, DONE, ERROR = "pending", "running", "done", "error"
API, CONDUCTOR, COMPUTE = "api", "conductor", "compute"
GUEST_AT = "guest_at"       # in the arguments of a build, evacuation or rescue: the host whose guest may have begun to run


@dataclass
class Action(Record):
    """``stage`` says who has to work on it (api: the request that wrote it), ``host`` which compute host; ``arguments`` are
    plain JSON."""

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

    @property
    def verb(self) -> str:
        """The key of ``operations.VERBS``: what is to be done, where ``action`` is only the public name."""
        return self.arguments.get("verb", self.action)
