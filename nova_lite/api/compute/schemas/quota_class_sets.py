"""Schemas of /os-quota-class-sets. Server groups are taken at every version, and shown from 2.50 on, when those of networks
left."""
from __future__ import annotations

from nova_lite.api.compute.schemas import quota_sets, shapes

_GROUPS = ("server_groups", "server_group_members")
RESOURCES = {"2.1": tuple(name for name in quota_sets.RESOURCES["2.1"] if name not in _GROUPS),
             "2.50": quota_sets.RESOURCES["2.36"], "2.57": quota_sets.RESOURCES["2.57"]}
UPDATE = {version: shapes.wrapped("quota_class_set", shapes.closed({}, dict.fromkeys((*names, *_GROUPS), quota_sets.LIMIT)))
          for version, names in RESOURCES.items()}
UPDATED = {version: shapes.wrapped("quota_class_set", shapes.closed(dict.fromkeys(names, shapes.INTEGER)))
           for version, names in RESOURCES.items()}
CLASS_SET = {version: shapes.wrapped("quota_class_set", shapes.closed({**dict.fromkeys(names, shapes.INTEGER),
                                                                       "id": shapes.STRING}))
             for version, names in RESOURCES.items()}
