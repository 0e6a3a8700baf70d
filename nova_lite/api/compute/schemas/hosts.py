"""Schemas of /os-hosts."""
from __future__ import annotations

from nova_lite.api.compute.schemas import shapes

LIST_QUERY = shapes.query({"zone": shapes.ANY_PARAM})
LIST = shapes.listing("hosts", shapes.closed(dict.fromkeys(("host_name", "service", "zone"), shapes.STRING)))
_RESOURCE = shapes.closed({**dict.fromkeys(("cpu", "disk_gb", "memory_mb"), shapes.INTEGER), "host": shapes.STRING,
                           "project": shapes.STRING})
SHOW = shapes.listing("host", shapes.wrapped("resource", _RESOURCE))
_SWITCH = {"enum": ["enable", "Enable", "ENABLE", "disable", "Disable", "DISABLE"]}
UPDATE = shapes.closed({}, {"status": _SWITCH, "maintenance_mode": _SWITCH}, minProperties=1)
UPDATED = shapes.closed({"host": shapes.STRING}, {"status": {"enum": ["enabled", "disabled"]},
                                                  "maintenance_mode": {"enum": ["on_maintenance", "off_maintenance"]}})
POWER = shapes.closed({"host": shapes.STRING, "power_action": {"enum": ["startup", "shutdown", "reboot"]}})
