"""Security groups of the embedded network as the Compute API shows and changes them."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import models, port_groups, security_groups
from nova_lite.db.group_changes import GroupChanges
from nova_lite.network.group_rules import EVERYWHERE, INGRESS, IPV4, IPV6, Rule, parse
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import SecurityGroup, SecurityGroupRule

GROUPS, PORTS = security_groups.GROUPS, models.ports


class DatabaseGroups:
    """``network.base.StoredGroups`` where there is a database. A member's groups are those of its project."""

    def __init__(self, changes: GroupChanges) -> None:
        self._changes, self._db = changes, changes.db

    def of_server(self, context: RequestContext, instance: Instance) -> list[SecurityGroup]:
        """See GroupsAPI."""
        with self._db.read() as c:
            ports = list(c.execute(sa.select(PORTS.c.uuid).where(PORTS.c.instance_uuid == instance.uuid)).scalars())
            ids = {group for some in port_groups.groups_of(c, ports).values() for group in some}
            return _made(c, security_groups.list_groups(c, uuids=ids))

    def add(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """See GroupsAPI."""
        return self._change(instance, name, True)

    def remove(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """See GroupsAPI."""
        return self._change(instance, name, False)

    def choose(self, project_id: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """See StoredGroups."""
        self._changes.ensure_default(project_id)
        with self._db.read() as c:
            return security_groups.choose(c, project_id, names)

    def of_ports(self, port_ids: Sequence[str]) -> list[str]:
        """See StoredGroups."""
        with self._db.read() as c:
            ids = {group for some in port_groups.groups_of(c, port_ids).values() for group in some}
            return [group["name"] for group in security_groups.list_groups(c, uuids=ids)]

    def list_all(self, context: RequestContext, every_project: bool = False) -> list[SecurityGroup]:
        """See GroupsAPI."""
        project = context.project_id or ""
        self._changes.ensure_default(project)
        with self._db.read() as c:
            return _made(c, security_groups.list_groups(c, None if every_project else project))

    def get(self, context: RequestContext, group_id: str) -> SecurityGroup:
        """See GroupsAPI."""
        self._changes.ensure_default(context.project_id or "")
        return self._show(group_id, _scope(context))

    def create(self, context: RequestContext, name: str, description: str) -> SecurityGroup:
        """See GroupsAPI."""
        return self._show(_as_nova_answers(self._changes.create, context.project_id or "", name, description)["uuid"])

    def update(self, context: RequestContext, group_id: str, name: str, description: str) -> SecurityGroup:
        """See GroupsAPI."""
        _as_nova_answers(self._changes.update, group_id, _scope(context), {"name": name, "description": description})
        return self._show(group_id)

    def delete(self, context: RequestContext, group_id: str) -> None:
        """See GroupsAPI."""
        _as_nova_answers(self._changes.delete, group_id, _scope(context))

    def add_rule(self, context: RequestContext, rule: SecurityGroupRule) -> SecurityGroupRule:
        """See GroupsAPI."""
        made = _as_nova_answers(self._changes.add_rule, rule.group_id, _scope(context), _neutrons(rule))
        with self._db.read() as c:
            return _nova_rule(made, _names(c, [made]))

    def delete_rule(self, context: RequestContext, rule_id: str) -> None:
        """See GroupsAPI."""
        self._changes.delete_rule(rule_id, _scope(context))

    def _change(self, instance: Instance, name: str, join: bool) -> SecurityGroup:
        self._changes.ensure_default(instance.project_id)
        return self._show(self._changes.change_server(instance, name, join))

    def _show(self, group_id: str, scope: str | None = None) -> SecurityGroup:
        with self._db.read() as c:
            return _made(c, [security_groups.get_group(c, group_id, scope)])[0]


def _as_nova_answers(change: Callable[..., Any], *arguments: Any) -> Any:
    """What Neutron answers with 409 is 400 in the Compute API."""
    try:
        return change(*arguments)
    except exception.Conflict as error:
        raise exception.Invalid(error.public) from error


def _scope(context: RequestContext) -> str | None:
    return None if context.is_admin else context.project_id or ""


def _names(c: sa.Connection, rules: Iterable[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Name and project of the groups that rules name."""
    remote = {rule["remote_group_uuid"] for rule in rules} - {None}
    query = sa.select(GROUPS.c.uuid, GROUPS.c.name, GROUPS.c.project_id).where(GROUPS.c.uuid.in_(remote))
    return {row.uuid: {"name": row.name, "tenant_id": row.project_id} for row in c.execute(query)} if remote else {}


def _made(c: sa.Connection, groups: Sequence[dict[str, Any]]) -> list[SecurityGroup]:
    names = _names(c, (rule for group in groups for rule in group["rules"]))
    return [SecurityGroup(g["uuid"], g["name"], g["project_id"], g["description"],
                          [_nova_rule(rule, names) for rule in g["rules"] if rule["direction"] == INGRESS]) for g in groups]


def _nova_rule(row: dict[str, Any], names: dict[str, dict[str, str]]) -> SecurityGroupRule:
    """A row in the form of the Compute API, as ``neutron_groups`` makes it of Neutron's."""
    protocol, low, high = row["protocol"], row["port_min"], row["port_max"]
    if protocol and low is None:
        low, high = (1, 65535) if protocol in ("tcp", "udp") else (-1, -1)
    elif protocol and high is None:
        high = -1
    remote = names.get(row["remote_group_uuid"] or "")
    return SecurityGroupRule(row["uuid"], row["group_uuid"], protocol, low, high,
                             None if remote else row["remote_cidr"] or EVERYWHERE[row["ethertype"]], remote,
                             row["remote_group_uuid"])


def _neutrons(rule: SecurityGroupRule) -> Rule:
    return parse({"direction": INGRESS, "ethertype": IPV6 if ":" in (rule.cidr or "") else IPV4, "protocol": rule.protocol,
                  "remote_ip_prefix": rule.cidr, "remote_group_id": rule.remote_group_id,
                  "port_range_min": None if rule.from_port == -1 else rule.from_port,
                  "port_range_max": None if rule.to_port == -1 else rule.to_port})
