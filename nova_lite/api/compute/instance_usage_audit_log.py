"""/os-instance_usage_audit_log: which hosts have reported their servers in the last whole month. Nova's hosts report when
[DEFAULT] instance_usage_audit is set, which is not the default; ours never report. So the answer for every month is that of a
Nova with its defaults: no host has run an audit.
"""
from __future__ import annotations

import datetime
from typing import Any

from nova_lite import exception, units
from nova_lite.api.compute.schemas import shapes
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.db import services
from nova_lite.policies.base import admin

_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"}
_HOST = shapes.closed({"errors": shapes.INTEGER, "instances": shapes.INTEGER, "message": shapes.STRING, "state": shapes.STRING})
_LOG = shapes.closed({
    "hosts_not_run": {"type": "array", "items": shapes.STRING}, "log": {"type": "object", "additionalProperties": _HOST},
    "num_hosts": shapes.INTEGER, "num_hosts_done": shapes.INTEGER, "num_hosts_not_run": shapes.INTEGER,
    "num_hosts_running": shapes.INTEGER, "overall_status": shapes.STRING, "period_beginning": _TIME, "period_ending": _TIME,
    "total_errors": shapes.INTEGER, "total_instances": shapes.INTEGER})
INDEX, SHOW = shapes.wrapped("instance_usage_audit_logs", _LOG), shapes.wrapped("instance_usage_audit_log", _LOG)

PATH = "/os-instance_usage_audit_log"


def index(req: Request) -> dict[str, Any]:
    """The month before this one."""
    return {"instance_usage_audit_logs": _log(req, units.utcnow())}


def show(req: Request, before: str) -> dict[str, Any]:
    """The last month that was over before a time."""
    try:
        time = datetime.datetime.strptime(before, "%Y-%m-%d %H:%M:%S.%f" if "." in before else "%Y-%m-%d %H:%M:%S")
        return {"instance_usage_audit_log": _log(req, time)}
    except ValueError:      # also of a month before the year 1
        raise exception.Invalid(f"Invalid timestamp for date {before[:100]}") from None


def last_month(before: datetime.datetime) -> tuple[datetime.datetime, datetime.datetime]:
    """First moments of the last month that ended before a time, and of the month after it. Raises ValueError in year 1."""
    end = before.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if end == before:
        end = _month_before(end)
    return _month_before(end), end


def _month_before(first: datetime.datetime) -> datetime.datetime:
    if first.month > 1:
        return first.replace(month=first.month - 1)
    return first.replace(year=first.year - 1, month=12)


def _log(req: Request, before: datetime.datetime) -> dict[str, Any]:
    begin, end = last_month(before)
    with req.services.db.read() as conn:
        hosts = sorted({service["host"] for service in services.list_all(conn, binary=services.COMPUTE)})
    done = f"0 of {len(hosts)}" if hosts else "ALL"
    return {"period_beginning": str(begin), "period_ending": str(end), "num_hosts": len(hosts), "num_hosts_done": 0,
            "num_hosts_running": 0, "num_hosts_not_run": len(hosts), "hosts_not_run": hosts, "total_instances": 0,
            "total_errors": 0, "overall_status": f"{done} hosts done. 0 errors.", "log": {}}


_RULE = "os_compute_api:os-instance-usage-audit-log"
ROUTES = [
    Route("GET", PATH, index, admin(f"{_RULE}:list", "List the usage audits of the last period."), response=INDEX),
    Route("GET", PATH + "/{before}", show, admin(f"{_RULE}:show", "List the usage audits before a time."),
          response=SHOW),
]
