"""``nova-lite-manage action list``: the open actions, for an operator who looks for what is stuck."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nova_lite.db import actions
from nova_lite.db.core import Database
from nova_lite.objects import action as objects

_ROW = "{id:>7}  {server:<36}  {verb:<16}  {step:<32}  {host:<20}  {holder:<28}  {age:>8}  {lease:>8}  {attempts:>8}  {said}"


def lines(db: Database, host: str | None = None, min_age: float = 0.0) -> Iterator[str]:
    """A heading and one line for each open action, oldest first; nothing but a sentence when there is none."""
    with db.read() as connection:
        found = actions.list_open(connection, host, min_age)
    if not found:
        yield "No action is open." if host is None and not min_age else "No such action is open."
        return
    yield _ROW.format(id="id", server="server", verb="verb", step="step", host="host", holder="holder", age="age",
                      lease="lease", attempts="attempts", said="last error")
    for row in found:
        yield _ROW.format(**_shown(row)).rstrip()


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "server": row["instance_uuid"], "verb": row["verb"], "step": _step(row),
            "host": row["host"] or row["server_host"] or "-", "holder": _holder(row), "age": duration(row["age"]),
            "lease": duration(row["left"]) if row["left"] is not None else "-", "attempts": row["attempts"],
            "said": " ".join((row["said"] or "").split())}


def _step(row: Mapping[str, Any]) -> str:
    """The worker's stage, and the step: the action's own, or else the task_state of the server."""
    detail = row["step"] or row["task_state"]
    return f"{row['stage']}: {detail}" if detail else str(row["stage"])


def _holder(row: Mapping[str, Any]) -> str:
    """The process that works on the action, as host:pid."""
    if row["state"] != objects.RUNNING:
        return "nobody yet"
    return ":".join(str(row["owner"]).split(":")[:-1]) or str(row["owner"])


def duration(seconds: float) -> str:
    """In the largest unit that leaves two digits: 45s, 12m, 30h, 9d; of a lease that is over with a minus."""
    sign, size = "-" if seconds < 0 else "", abs(seconds)
    for unit, length in (("s", 1), ("m", 60), ("h", 3600)):
        if size < 100 * length:
            return f"{sign}{size / length:.0f}{unit}"
    return f"{sign}{size / 86400:.0f}d"
