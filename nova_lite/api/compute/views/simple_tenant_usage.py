"""The view of the usage of a project."""
from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class _Period(Protocol):
    begin: datetime.datetime
    end: datetime.datetime
    now: datetime.datetime


def project(period: _Period, rows: Sequence[Mapping[str, Any]], detailed: bool) -> dict[str, Any]:
    """The sums of the servers ``rows``, all of one project; ``detailed``: and each of them."""
    servers = [_server(period, row) for row in rows]
    view: dict[str, Any] = {
        "tenant_id": rows[0]["project_id"], "start": _time(period.begin), "stop": _time(period.end),
        "total_hours": float(sum(server["hours"] for server in servers))}
    for name in ("local_gb", "memory_mb", "vcpus"):
        view[f"total_{name}_usage"] = float(sum(server[name] * server["hours"] for server in servers))
    return view | {"server_usages": servers} if detailed else view


def _server(period: _Period, row: Mapping[str, Any]) -> dict[str, Any]:
    launched, terminated, flavor = row["launched_at"], row["terminated_at"], row["flavor"]
    ran = min(period.end, terminated or period.end) - max(period.begin, launched)
    return {"instance_id": row["uuid"], "name": row["display_name"], "tenant_id": row["project_id"],
            "hours": max(0.0, ran.total_seconds() / 3600), "flavor": flavor["name"], "memory_mb": flavor["memory_mb"],
            "local_gb": flavor["root_gb"] + flavor.get("ephemeral_gb", 0), "vcpus": flavor["vcpus"],
            "started_at": _time(launched), "ended_at": _time(terminated) if terminated else None,
            "state": "terminated" if terminated else row["vm_state"],
            "uptime": max(0, int(((terminated or period.now) - launched).total_seconds()))}


def _time(time: datetime.datetime) -> str:
    return time.isoformat(timespec="microseconds")
