"""The one security group of networks that filter nothing: "default", which every server is in."""
from __future__ import annotations

import uuid

from nova_lite import exception
from nova_lite.objects.network import SecurityGroup

NAME = "default"


def of(project_id: str) -> SecurityGroup:
    """The group of a project; its id is always the same."""
    return SecurityGroup(str(uuid.uuid5(uuid.NAMESPACE_OID, project_id)), NAME, project_id, "Allows all")


def find(project_id: str, name: str) -> SecurityGroup:
    """The group by name or id; raises SecurityGroupNotFound for any other one."""
    group = of(project_id)
    if name not in (group.name, group.id):
        raise exception.SecurityGroupNotFound(security_group_id=name)
    return group
