"""Schemas of /os-instance_usage_audit_log."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"}
_HOST = shapes.closed({"errors": shapes.INTEGER, "instances": shapes.INTEGER, "message": shapes.STRING, "state": shapes.STRING})
_LOG = shapes.closed({
    "hosts_not_run": {"type": "array", "items": shapes.STRING}, "log": {"type": "object", "additionalProperties": _HOST},
    "num_hosts": shapes.INTEGER, "num_hosts_done": shapes.INTEGER, "num_hosts_not_run": shapes.INTEGER,
    "num_hosts_running": shapes.INTEGER, "overall_status": shapes.STRING, "period_beginning": _TIME, "period_ending": _TIME,
    "total_errors": shapes.INTEGER, "total_instances": shapes.INTEGER})
INDEX, SHOW = shapes.wrapped("instance_usage_audit_logs", _LOG), shapes.wrapped("instance_usage_audit_log", _LOG)
