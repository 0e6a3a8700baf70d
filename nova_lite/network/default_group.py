"""The security group "default": its id in each project, and the only one where there is no network to filter."""
from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import NoReturn

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import SecurityGroup, SecurityGroupRule

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


def names(project_id: str, asked: Iterable[str]) -> list[str]:
    """Of groups asked for by name or id, each once; raises SecurityGroupNotFound."""
    return list(dict.fromkeys(find(project_id, name).name for name in asked))


class DefaultGroup:
    """``network.base.GroupsAPI`` of a network that can neither make groups nor rules."""

    def of_server(self, context: RequestContext, instance: Instance) -> list[SecurityGroup]:
        """See GroupsAPI."""
        return [of(instance.project_id)]

    def add(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """Every server is in the only group already."""
        return find(instance.project_id, name)

    def remove(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """No server can be without it."""
        group = find(instance.project_id, name)
        raise exception.Conflict(f"Security group {group.name} cannot be taken from a server: this network has no other one.")

    def list_all(self, context: RequestContext, every_project: bool = False) -> list[SecurityGroup]:
        """See GroupsAPI."""
        return [of(context.project_id or "")]

    def get(self, context: RequestContext, group_id: str) -> SecurityGroup:
        """See GroupsAPI."""
        return find(context.project_id or "", group_id)

    def create(self, context: RequestContext, name: str, description: str) -> NoReturn:
        """Refused, as are all changes."""
        _refuse()

    def update(self, context: RequestContext, group_id: str, name: str, description: str) -> NoReturn:
        """See GroupsAPI."""
        self.get(context, group_id)
        raise exception.Invalid(_REFUSAL)

    def delete(self, context: RequestContext, group_id: str) -> NoReturn:
        """See GroupsAPI."""
        self.get(context, group_id)
        raise exception.Invalid(_REFUSAL)

    def add_rule(self, context: RequestContext, rule: SecurityGroupRule) -> NoReturn:
        """See GroupsAPI."""
        self.get(context, rule.group_id)
        _refuse()

    def delete_rule(self, context: RequestContext, rule_id: str) -> NoReturn:
        """There are none."""
        raise exception.SecurityGroupNotFound(f"Security group rule {rule_id} could not be found.")


_REFUSAL = "There is no network: its security group default cannot be changed, and there are no others."


def _refuse() -> NoReturn:
    raise exception.Forbidden(_REFUSAL)
