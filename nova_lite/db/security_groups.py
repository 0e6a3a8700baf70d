"""Security groups of the embedded network: the rows of groups and of their rules.

A project has its group "default" from the moment that something asks for it. Whoever makes a group or a rule locks the project
as for quotas, so that there is one default only and the limits hold.
"""
from __future__ import annotations

import uuid as uuidlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import models, quotas
from nova_lite.network import default_group
from nova_lite.network.group_rules import DEFAULTS, EVERYWHERE, Rule, default_group_rules
from nova_lite.units import utcnow

GROUPS = models.security_groups
RULES = models.security_group_rules
MEMBERS = models.port_security_groups
MAX_GROUPS, MAX_RULES = 50, 500     # of a project
_IDENTITY = ("direction", "ethertype", "protocol", "port_min", "port_max", "remote_cidr", "remote_group_uuid")


# groups -------------------------------------------------------------------------------------------------------------
def ensure_default(c: sa.Connection, project_id: str) -> str:
    """The id of a project's group "default", which is made if it is not there."""
    uuid = default_group.of(project_id).id
    known = sa.select(GROUPS.c.id).where(GROUPS.c.uuid == uuid)
    if c.execute(known).first() is None:
        quotas.lock(c, project_id)
        if c.execute(known).first() is None:
            _insert(c, uuid, project_id, default_group.NAME, "Default security group", default_group_rules(uuid))
    return uuid


def has_default(c: sa.Connection, project_id: str) -> bool:
    """Whether the project has its group "default" already."""
    return c.execute(sa.select(GROUPS.c.id).where(GROUPS.c.uuid == default_group.of(project_id).id)).first() is not None


def list_groups(c: sa.Connection, project_id: str | None = None, uuids: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Groups with their ``rules``, oldest first: of a project (None: of all), or only some."""
    query = sa.select(GROUPS).order_by(GROUPS.c.id)
    if project_id is not None:
        query = query.where(GROUPS.c.project_id == project_id)
    if uuids is not None:
        query = query.where(GROUPS.c.uuid.in_(uuids))
    found = [dict(row) for row in c.execute(query).mappings()]
    rules = defaultdict(list)
    for rule in list_rules(c, RULES.c.group_uuid.in_([g["uuid"] for g in found])):
        rules[rule["group_uuid"]].append(rule)
    return [{**group, "rules": rules[group["uuid"]]} for group in found]


def get_group(c: sa.Connection, uuid: str, project_id: str | None = None) -> dict[str, Any]:
    """One group; SecurityGroupNotFound when it is not there or is another project's."""
    for group in list_groups(c, project_id, [uuid]):
        return group
    raise exception.SecurityGroupNotFound(security_group_id=uuid)


def choose(c: sa.Connection, project_id: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """(id, name) of groups of a project by names or ids, each once. Raises SecurityGroupNotFound, SecurityGroupAmbiguous."""
    rows = c.execute(sa.select(GROUPS.c.uuid, GROUPS.c.name).where(GROUPS.c.project_id == project_id)).all()
    chosen: dict[str, str] = {}
    for name in names:
        found = [row for row in rows if row.uuid == name] or [row for row in rows if row.name == name]
        if not found:
            raise exception.SecurityGroupNotFound(security_group_id=name)
        if len(found) > 1:
            raise exception.SecurityGroupAmbiguous(name=name)
        chosen[found[0].uuid] = found[0].name
    return list(chosen.items())


def count_groups(c: sa.Connection, project_id: str) -> int:
    """How many of MAX_GROUPS a project has."""
    return c.scalar(sa.select(sa.func.count()).select_from(GROUPS).where(GROUPS.c.project_id == project_id)) or 0


def create_group(c: sa.Connection, project_id: str, name: str, description: str = "") -> dict[str, Any]:
    """A new group, whose members may send anything and let in nothing. Raises Conflict for a second "default", and
    QuotaLimitExceeded."""
    ensure_default(c, project_id)
    quotas.lock(c, project_id)
    if name == default_group.NAME:
        raise exception.Conflict("Default security group already exists.")
    _check_texts(name, description)
    if count_groups(c, project_id) >= MAX_GROUPS:
        raise exception.QuotaLimitExceeded(what="security groups")
    uuid = str(uuidlib.uuid4())
    _insert(c, uuid, project_id, name, description, DEFAULTS)
    return get_group(c, uuid)


def update_group(c: sa.Connection, uuid: str, project_id: str | None, values: Mapping[str, str]) -> dict[str, Any]:
    """Another ``name`` or ``description``. Raises SecurityGroupNotFound, Conflict for the name of "default"."""
    group = get_group(c, uuid, project_id)
    name, description = values.get("name", group["name"]), values.get("description", group["description"])
    _check_texts(name, description)
    if name != group["name"] and default_group.NAME in (name, group["name"]):
        raise exception.Conflict("Updating the default security group not allowed.")
    c.execute(sa.update(GROUPS).where(GROUPS.c.uuid == uuid).values(name=name, description=description, updated_at=utcnow()))
    return get_group(c, uuid)


def delete_group(c: sa.Connection, uuid: str, project_id: str | None) -> None:
    """Remove a group, and the rules that name it. Raises SecurityGroupNotFound, Conflict for "default" and for a group with
    ports."""
    group = get_group(c, uuid, project_id)
    if group["name"] == default_group.NAME:
        raise exception.Conflict("Insufficient rights for removing default security group.")
    # a port that is put into the group at this moment waits for this row, and then finds it gone
    c.execute(sa.delete(GROUPS).where(GROUPS.c.uuid == uuid))
    if c.execute(sa.select(MEMBERS.c.port_uuid).where(MEMBERS.c.group_uuid == uuid).limit(1)).first() is not None:
        raise exception.Conflict(f"Security Group {uuid} in use.")
    c.execute(sa.delete(RULES).where(sa.or_(RULES.c.group_uuid == uuid, RULES.c.remote_group_uuid == uuid)))


# rules --------------------------------------------------------------------------------------------------------------
def list_rules(c: sa.Connection, *which: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
    """Rules that fulfil conditions, oldest first, each with the ``project_id`` of its group."""
    query = (sa.select(RULES, GROUPS.c.project_id).join(GROUPS, GROUPS.c.uuid == RULES.c.group_uuid)
             .where(*which).order_by(RULES.c.id))
    return [dict(row) for row in c.execute(query).mappings()]


def get_rule(c: sa.Connection, uuid: str, project_id: str | None = None) -> dict[str, Any]:
    """One rule; SecurityGroupNotFound when it is not there or is another project's."""
    for rule in list_rules(c, RULES.c.uuid == uuid):
        if project_id in (None, rule["project_id"]):
            return rule
    raise exception.SecurityGroupNotFound(f"Security group rule {uuid} could not be found.")


def count_rules(c: sa.Connection, project_id: str) -> int:
    """How many of MAX_RULES a project has."""
    joined = RULES.join(GROUPS, GROUPS.c.uuid == RULES.c.group_uuid)
    return c.scalar(sa.select(sa.func.count()).select_from(joined).where(GROUPS.c.project_id == project_id)) or 0


def add_rules(c: sa.Connection, wanted: Sequence[tuple[str, Rule]], project_id: str | None) -> list[dict[str, Any]]:
    """All of the rules, given with the ids of their groups, or none. Raises what :func:`add_rule` does."""
    return [add_rule(c, group_id, project_id, rule) for group_id, rule in wanted]


def add_rule(c: sa.Connection, group_id: str, project_id: str | None, rule: Rule) -> dict[str, Any]:
    """Add a rule. Raises SecurityGroupNotFound for its group and for the remote group, Conflict for a rule that the group has,
    and QuotaLimitExceeded."""
    group = get_group(c, group_id, project_id)
    quotas.lock(c, group["project_id"])
    named = {group_id, rule.remote_group or group_id}
    # whoever deletes one of them waits, or was first
    c.execute(sa.select(GROUPS.c.id).where(GROUPS.c.uuid.in_(named)).order_by(GROUPS.c.id).with_for_update(read=True)).all()
    for uuid in named:
        get_group(c, uuid, project_id)
    wanted = _identity(_row(rule))
    for known in list_rules(c, RULES.c.group_uuid == group_id):
        if _identity(known) == wanted:
            raise exception.Conflict(f"Security group rule already exists. Rule id is {known['uuid']}.")
    if count_rules(c, group["project_id"]) >= MAX_RULES:
        raise exception.QuotaLimitExceeded(what="security group rules")
    [uuid] = _insert_rules(c, group_id, [rule])
    return get_rule(c, uuid)


def delete_rule(c: sa.Connection, uuid: str, project_id: str | None) -> str:
    """Remove a rule; the id of its group."""
    rule = get_rule(c, uuid, project_id)
    c.execute(sa.delete(RULES).where(RULES.c.uuid == uuid))
    return str(rule["group_uuid"])


def _insert(c: sa.Connection, uuid: str, project_id: str, name: str, description: str, rules: Sequence[Rule]) -> None:
    c.execute(sa.insert(GROUPS).values(uuid=uuid, project_id=project_id, name=name, description=description,
                                       created_at=utcnow()))
    _insert_rules(c, uuid, rules)


def _insert_rules(c: sa.Connection, group_id: str, rules: Sequence[Rule]) -> list[str]:
    uuids = [str(uuidlib.uuid4()) for _ in rules]
    c.execute(sa.insert(RULES), [{"uuid": uuid, "group_uuid": group_id, "created_at": utcnow(), **_row(rule)}
                                 for uuid, rule in zip(uuids, rules, strict=True)])
    return uuids


def _identity(row: Mapping[str, Any]) -> list[Any]:
    """What makes a rule another one. All of a version of IP is as good as no range."""
    return [None if key == "remote_cidr" and row[key] in EVERYWHERE.values() else row[key] for key in _IDENTITY]


def _row(rule: Rule) -> dict[str, Any]:
    return {"direction": rule.direction, "ethertype": rule.ethertype, "protocol": rule.protocol, "port_min": rule.port_min,
            "port_max": rule.port_max, "remote_cidr": rule.remote_cidr,
            "remote_group_uuid": rule.remote_group, "description": rule.description}


def _check_texts(name: str, description: str) -> None:
    for what, text in (("name", name), ("description", description)):
        if len(text) > 255:
            raise exception.InvalidInput(reason=f"{what} has more than 255 characters")
