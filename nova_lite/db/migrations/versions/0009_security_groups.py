"""Security groups of the embedded network. Ports that are there already go on letting everything in."""
import datetime
import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# the types are written out again: a migration must not change when models.py does
Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
INDEXES = {"security_groups": ("project_id",), "security_group_rules": ("group_uuid", "remote_group_uuid"),
           "port_security_groups": ("group_uuid",)}


def upgrade() -> None:
    """Make the tables and their indexes, unless a killed run did so before, then a group for each project with ports."""
    known = set(sa.inspect(op.get_bind()).get_table_names())
    for table, make in (("security_groups", _groups), ("security_group_rules", _rules), ("port_security_groups", _members)):
        if table not in known:
            make()
        indexes = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
        for column in INDEXES[table]:
            if f"ix_{table}_{column}" not in indexes:
                op.create_index(f"ix_{table}_{column}", table, [column])
    _put_ports_into_groups()


def _head(table: str) -> tuple[Any, ...]:
    return (sa.Column("id", Id, primary_key=True, autoincrement=True), sa.Column("created_at", Time, nullable=False),
            sa.Column("updated_at", Time), sa.Column("uuid", sa.String(36), nullable=False),
            sa.UniqueConstraint("uuid", name=f"uq_{table}_uuid"))


def _groups() -> None:
    op.create_table("security_groups", *_head("security_groups"), sa.Column("project_id", sa.String(255), nullable=False),
                    sa.Column("name", sa.String(255), nullable=False),
                    sa.Column("description", sa.String(255), nullable=False), **OPTIONS)


def _rules() -> None:
    op.create_table("security_group_rules", *_head("security_group_rules"),
                    sa.Column("group_uuid", sa.String(36), nullable=False),
                    sa.Column("direction", sa.String(8), nullable=False), sa.Column("ethertype", sa.String(8), nullable=False),
                    sa.Column("protocol", sa.String(32)), sa.Column("port_min", sa.Integer), sa.Column("port_max", sa.Integer),
                    sa.Column("remote_cidr", sa.String(64)), sa.Column("remote_group_uuid", sa.String(36)),
                    sa.Column("description", sa.String(255), nullable=False), **OPTIONS)


def _members() -> None:
    op.create_table("port_security_groups", sa.Column("port_uuid", sa.String(36), primary_key=True),
                    sa.Column("group_uuid", sa.String(36), primary_key=True), **OPTIONS)


def _put_ports_into_groups() -> None:
    """The group "default" of their project, which until now let everything in and is to do so until somebody changes that. The
    group comes last: where it is, all was done."""
    bind = op.get_bind()
    ports = sa.table("ports", sa.column("uuid"), sa.column("project_id"))
    groups = sa.table("security_groups", sa.column("uuid"), sa.column("project_id"), sa.column("name"),
                      sa.column("description"), sa.column("created_at", Time))
    rules = sa.table("security_group_rules", sa.column("uuid"), sa.column("group_uuid"), sa.column("direction"),
                     sa.column("ethertype"), sa.column("description"), sa.column("created_at", Time))
    members = sa.table("port_security_groups", sa.column("port_uuid"), sa.column("group_uuid"))
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    for project in list(bind.execute(sa.select(ports.c.project_id).distinct()).scalars()):
        group = str(uuid.uuid5(uuid.NAMESPACE_OID, project))
        if bind.execute(sa.select(groups.c.uuid).where(groups.c.uuid == group)).first() is not None:
            continue
        mine = list(bind.execute(sa.select(ports.c.uuid).where(ports.c.project_id == project)).scalars())
        bind.execute(sa.delete(rules).where(rules.c.group_uuid == group))
        bind.execute(sa.delete(members).where(members.c.group_uuid == group))
        bind.execute(sa.insert(rules), [
            {"uuid": str(uuid.uuid4()), "group_uuid": group, "direction": direction, "ethertype": version, "created_at": now,
             "description": "as before there were security groups" if direction == "ingress" else ""}
            for direction in ("egress", "ingress") for version in ("IPv4", "IPv6")])
        bind.execute(sa.insert(members), [{"port_uuid": port, "group_uuid": group} for port in mine])
        bind.execute(sa.insert(groups).values(uuid=group, project_id=project, name="default", created_at=now,
                                              description="Default security group"))
