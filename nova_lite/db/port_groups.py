"""Which ports are in which security groups, and the data of them for hosts."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import models, security_groups
from nova_lite.network.group_rules import IPV4

GROUPS, RULES, MEMBERS = security_groups.GROUPS, security_groups.RULES, security_groups.MEMBERS
PORTS = models.ports


# members ------------------------------------------------------------------------------------------------------------
def groups_of(c: sa.Connection, port_ids: Collection[str]) -> dict[str, list[str]]:
    """The ids of the groups of each port, in the order of the groups' birth; a port in none is left out."""
    query = (sa.select(MEMBERS.c.port_uuid, MEMBERS.c.group_uuid).join(GROUPS, GROUPS.c.uuid == MEMBERS.c.group_uuid)
             .where(MEMBERS.c.port_uuid.in_(port_ids)).order_by(GROUPS.c.id))
    found = defaultdict(list)
    for port_id, group_id in c.execute(query):
        found[port_id].append(group_id)
    return dict(found)


def put(c: sa.Connection, port_id: str, group_ids: Iterable[str]) -> None:
    """The port is in these groups and no others. Raises SecurityGroupNotFound: a group that is there stays until the end of the
    transaction."""
    wanted = sorted(set(group_ids))
    there = set(c.execute(sa.select(GROUPS.c.uuid).where(GROUPS.c.uuid.in_(wanted))
                          .with_for_update(read=True)).scalars()) if wanted else set()
    for missing in set(wanted) - there:
        raise exception.SecurityGroupNotFound(security_group_id=missing)
    c.execute(sa.delete(MEMBERS).where(MEMBERS.c.port_uuid == port_id))
    if wanted:
        c.execute(sa.insert(MEMBERS), [{"port_uuid": port_id, "group_uuid": group} for group in wanted])


def forget(c: sa.Connection, which: sa.ColumnElement[bool]) -> None:
    """The ports of this condition are deleted next: remove them from their groups, and prevent that they are added to one
    meanwhile."""
    c.execute(sa.select(PORTS.c.id).where(which).order_by(PORTS.c.id).with_for_update()).all()
    c.execute(sa.delete(MEMBERS).where(MEMBERS.c.port_uuid.in_(sa.select(PORTS.c.uuid).where(which))))


# what hosts need ----------------------------------------------------------------------------------------------------
def rules_for(c: sa.Connection, group_ids: Collection[str]) -> dict[str, Any]:
    """The data for a host that filters ports in these groups: ``rules`` of each group, as the columns of a Rule, and
    ``members``, (network, address) of the ports in the groups that these rules name."""
    rules: dict[str, list[dict[str, Any]]] = {group: [] for group in group_ids}
    for row in security_groups.list_rules(c, RULES.c.group_uuid.in_(group_ids), RULES.c.ethertype == IPV4):
        rules[row["group_uuid"]].append({key: row[key] for key in (
            "direction", "protocol", "port_min", "port_max", "remote_cidr", "remote_group_uuid")})
    remote = {rule["remote_group_uuid"] for some in rules.values() for rule in some} - {None}
    members: dict[str, list[list[str]]] = {group: [] for group in remote}
    query = (sa.select(MEMBERS.c.group_uuid, PORTS.c.network_uuid, PORTS.c.address)
             .join(PORTS, PORTS.c.uuid == MEMBERS.c.port_uuid).where(MEMBERS.c.group_uuid.in_(remote)).order_by(PORTS.c.id))
    for group, network, address in c.execute(query) if remote else ():
        members[group].append([network, address])
    return {"rules": rules, "members": members}


def hosts_of(c: sa.Connection, group_ids: Collection[str], networks: Collection[str] = ()) -> set[str]:
    """Hosts of ports in one of these groups, in a group with a rule that names one of them, or on these networks."""
    speaking = sa.select(RULES.c.group_uuid).where(RULES.c.remote_group_uuid.in_(group_ids))
    members = sa.select(MEMBERS.c.port_uuid).where(
        sa.or_(MEMBERS.c.group_uuid.in_(group_ids), MEMBERS.c.group_uuid.in_(speaking)))
    found: set[str] = set()
    for some, which in ((group_ids, PORTS.c.uuid.in_(members)), (networks, PORTS.c.network_uuid.in_(networks))):
        if some:
            found.update(c.execute(sa.select(PORTS.c.host).where(PORTS.c.host.is_not(None), which).distinct()).scalars())
    return found
