"""Changes of security groups. Each change notifies the hosts whose guests are affected."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import models, networks, port_groups, security_groups
from nova_lite.db.core import Database
from nova_lite.network.group_rules import Rule
from nova_lite.objects.instance import Instance

PORTS = models.ports
Row = dict[str, Any]


class Tell(Protocol):
    """Called after a commit: the rules or members of these groups have changed, and what is in force on these hosts."""

    def __call__(self, group_ids: Collection[str], hosts: Collection[str] = ()) -> None:
        """Must not block. The notification may be lost, as hosts read the rules periodically."""


def tell_nobody(group_ids: Collection[str], hosts: Collection[str] = ()) -> None:
    """Where there is no bus."""


class GroupChanges:
    """``scope`` is the project that the caller may see (None: all). All raise SecurityGroupNotFound, Conflict and
    QuotaLimitExceeded as ``security_groups`` does."""

    def __init__(self, db: Database, tell: Tell = tell_nobody) -> None:
        self.db, self._tell = db, tell

    def ensure_default(self, project_id: str) -> None:
        """Make the group "default" of a project, if it is not there."""
        with self.db.read() as c:
            there = security_groups.has_default(c, project_id)
        if not there and project_id:
            self.db.write(security_groups.ensure_default, project_id)

    def create(self, project_id: str, name: str, description: str) -> Row:
        """A new group."""
        return self.db.write(security_groups.create_group, project_id, name, description)

    def update(self, group_id: str, scope: str | None, values: Mapping[str, str]) -> Row:
        """Another name or description."""
        return self.db.write(security_groups.update_group, group_id, scope, values)

    def delete(self, group_id: str, scope: str | None) -> None:
        """Remove a group that no port is in."""
        with self.db.read() as c:
            rules = security_groups.list_rules(c, security_groups.RULES.c.remote_group_uuid == group_id)
        self.db.write(security_groups.delete_group, group_id, scope)
        self._tell({rule["group_uuid"] for rule in rules})

    def add_rule(self, group_id: str, scope: str | None, rule: Rule) -> Row:
        """A rule more."""
        return self.add_rules([(group_id, rule)], scope)[0]

    def add_rules(self, wanted: Sequence[tuple[str, Rule]], scope: str | None) -> list[Row]:
        """Rules, given with the ids of their groups: all of them or none."""
        made = self.db.write(security_groups.add_rules, wanted, scope)
        self._tell({group_id for group_id, _ in wanted})
        return made

    def delete_rule(self, rule_id: str, scope: str | None) -> None:
        """A rule less."""
        self._tell([self.db.write(security_groups.delete_rule, rule_id, scope)])

    def change_server(self, instance: Instance, name: str, join: bool) -> str:
        """Put all ports of a server into a group of its project, or take them out; the group's id."""
        group_id, hosts = self.db.write(_change_server, instance, name, join)
        self._tell([group_id], hosts)
        return group_id

    def update_port(self, port_id: str, scope: str | None, name: str | None, groups: Sequence[str] | None) -> Row:
        """See ``networks.update_port``."""
        with self.db.read() as c:
            before = networks.get_port(c, port_id, scope)
        port = self.db.write(networks.update_port, port_id, scope, name=name, groups=groups)
        if groups is not None:
            self._tell({*before["security_groups"], *port["security_groups"]}, [port["host"]] if port["host"] else [])
        return port


def _change_server(c: sa.Connection, instance: Instance, name: str, join: bool) -> tuple[str, set[str]]:
    [(group_id, _)] = security_groups.choose(c, instance.project_id, [name])
    query = sa.select(PORTS.c.uuid, PORTS.c.host).where(PORTS.c.instance_uuid == instance.uuid).order_by(PORTS.c.id)
    ports = {row.uuid: row.host for row in c.execute(query.with_for_update())}
    known = port_groups.groups_of(c, ports)
    if join and not ports:
        raise exception.SecurityGroupNotFound(f"Server {instance.uuid} has no port that security group {name} could be put on.")
    if not join and not any(group_id in groups for groups in known.values()):
        raise exception.SecurityGroupNotFound(f"Security group {name} is not associated with server {instance.uuid}.")
    for port in ports:
        mine = set(known.get(port, ()))
        port_groups.put(c, port, mine | {group_id} if join else mine - {group_id})
    return group_id, {host for host in ports.values() if host}
