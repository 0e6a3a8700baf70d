"""The first schema."""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# the types are written out again: a migration must not change when models.py does
Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
Json = sa.JSON(none_as_null=True)
Text = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
# names compare byte by byte on each kind of database; MySQL would take "Small" and "small" for the same otherwise
OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make every table. MySQL commits each statement by itself, so what a killed run has made is left standing."""
    inspector = sa.inspect(op.get_bind())
    present = set(inspector.get_table_names())
    indexes = {index["name"] for table in present for index in inspector.get_indexes(table)}
    for name, make in TABLES.items():
        if name not in present:
            make()
    for table, columns, name in INDEXES:
        if name not in indexes:
            op.create_index(name, table, columns)


def _services() -> None:
    op.create_table(
        "services",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("binary", sa.String(64), nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("disabled_reason", sa.String(255)),
        sa.Column("forced_down", sa.Boolean, nullable=False),
        sa.Column("last_seen_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_services_id"),
        sa.UniqueConstraint("host", "binary", name="uq_services_host_binary"),
        sa.UniqueConstraint("uuid", name="uq_services_uuid"),
        **OPTIONS)


def _compute_nodes() -> None:
    op.create_table(
        "compute_nodes",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(255), nullable=False),
        sa.Column("host_ip", sa.String(64)),
        sa.Column("hypervisor_type", sa.String(64), nullable=False),
        sa.Column("hypervisor_version", sa.Integer, nullable=False),
        sa.Column("cpu_info", Json),
        sa.Column("supported_instances", Json),
        sa.Column("traits", Json),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("local_gb", sa.Integer, nullable=False),
        sa.Column("reserved_vcpus", sa.Integer, nullable=False),
        sa.Column("reserved_memory_mb", sa.Integer, nullable=False),
        sa.Column("reserved_local_gb", sa.Integer, nullable=False),
        sa.Column("cpu_allocation_ratio", sa.Float, nullable=False),
        sa.Column("ram_allocation_ratio", sa.Float, nullable=False),
        sa.Column("disk_allocation_ratio", sa.Float, nullable=False),
        sa.Column("vcpus_used", sa.Integer, nullable=False),
        sa.Column("memory_mb_used", sa.Integer, nullable=False),
        sa.Column("local_gb_used", sa.Integer, nullable=False),
        sa.Column("instances_used", sa.Integer, nullable=False),
        sa.Column("disk_available_least", sa.Integer),
        sa.Column("free_disk_gb", sa.Integer),
        sa.Column("io_ops", sa.Integer, nullable=False),
        sa.Column("failed_builds", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_compute_nodes_id"),
        sa.UniqueConstraint("host", "hypervisor_hostname", name="uq_compute_nodes_host_hypervisor_hostname"),
        sa.UniqueConstraint("uuid", name="uq_compute_nodes_uuid"),
        **OPTIONS)


def _allocations() -> None:
    op.create_table(
        "allocations",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("compute_node_id", Id, nullable=False),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("disk_gb", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_allocations_id"),
        sa.UniqueConstraint("instance_uuid", "compute_node_id", name="uq_allocations_instance_uuid_compute_node_id"),
        **OPTIONS)


def _instance_documents() -> list[sa.Column]:
    """What belongs to one server and is never joined on, and its times."""
    return [
        sa.Column("metadata", Json, nullable=False),
        sa.Column("system_metadata", Json, nullable=False),
        sa.Column("network_request", Json),
        sa.Column("network_info", Json, nullable=False),
        sa.Column("security_groups", Json, nullable=False),
        sa.Column("scheduler_hints", Json, nullable=False),
        sa.Column("requested_destination", Json),
        sa.Column("trusted_certs", Json),
        sa.Column("personality", Json),
        sa.Column("fault", Json),
        sa.Column("launched_at", Time),
        sa.Column("terminated_at", Time),
        sa.Column("deleted_at", Time),
        sa.Column("deleted", Id, nullable=False)
    ]


def _instances() -> None:
    op.create_table(
        "instances",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("display_name", sa.String(255), nullable=False),
        sa.Column("display_description", sa.String(255)),
        sa.Column("hostname", sa.String(255)),
        sa.Column("reservation_id", sa.String(32)),
        sa.Column("launch_index", sa.Integer, nullable=False),
        sa.Column("vm_state", sa.String(32), nullable=False),
        sa.Column("task_state", sa.String(64)),
        sa.Column("power_state", sa.Integer, nullable=False),
        sa.Column("progress", sa.Integer, nullable=False),
        sa.Column("image_ref", sa.String(255), nullable=False),
        sa.Column("image", Json),
        sa.Column("flavor_ref", sa.String(255), nullable=False),
        sa.Column("flavor", Json, nullable=False),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("root_gb", sa.Integer, nullable=False),
        sa.Column("key_name", sa.String(255)),
        sa.Column("keypair", Json),
        sa.Column("host", sa.String(255)),
        sa.Column("node", sa.String(255)),
        sa.Column("launched_on", sa.String(255)),
        sa.Column("availability_zone", sa.String(255)),
        sa.Column("pinned_availability_zone", sa.String(255)),
        sa.Column("config_drive", sa.Boolean, nullable=False),
        sa.Column("user_data", Text),
        sa.Column("root_device_name", sa.String(255)),
        sa.Column("access_ip_v4", sa.String(39)),
        sa.Column("access_ip_v6", sa.String(39)),
        sa.Column("auto_disk_config", sa.Boolean, nullable=False),
        sa.Column("locked", sa.Boolean, nullable=False),
        sa.Column("locked_by", sa.String(16)),
        sa.Column("locked_reason", sa.String(255)),
        *_instance_documents(),
        sa.PrimaryKeyConstraint("id", name="pk_instances_id"),
        sa.UniqueConstraint("uuid", name="uq_instances_uuid"),
        **OPTIONS)


def _instance_tags() -> None:
    op.create_table(
        "instance_tags",
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("tag", sa.String(60), nullable=False),
        sa.PrimaryKeyConstraint("instance_uuid", "tag", name="pk_instance_tags_instance_uuid_tag"),
        **OPTIONS)


def _instance_actions() -> None:
    op.create_table(
        "instance_actions",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("project_id", sa.String(255)),
        sa.Column("start_time", Time, nullable=False),
        sa.Column("finish_time", Time),
        sa.Column("message", sa.String(255)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("stage", sa.String(16)),
        sa.Column("host", sa.String(255)),
        sa.Column("arguments", Json, nullable=False),
        sa.Column("context", Json),
        sa.Column("owner", sa.String(128)),
        sa.Column("lease_until", Time),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_instance_actions_id"),
        **OPTIONS)


def _instance_action_events() -> None:
    op.create_table(
        "instance_action_events",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("action_id", Id, nullable=False),
        sa.Column("event", sa.String(128), nullable=False),
        sa.Column("host", sa.String(255)),
        sa.Column("start_time", Time, nullable=False),
        sa.Column("finish_time", Time),
        sa.Column("result", sa.String(32)),
        sa.Column("traceback", Text),
        sa.Column("details", sa.String(255)),
        sa.PrimaryKeyConstraint("id", name="pk_instance_action_events_id"),
        **OPTIONS)


def _flavors() -> None:
    op.create_table(
        "flavors",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("flavorid", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("root_gb", sa.Integer, nullable=False),
        sa.Column("ephemeral_gb", sa.Integer, nullable=False),
        sa.Column("swap", sa.Integer, nullable=False),
        sa.Column("rxtx_factor", sa.Float, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("is_public", sa.Boolean, nullable=False),
        sa.Column("description", Text),
        sa.Column("extra_specs", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_flavors_id"),
        sa.UniqueConstraint("flavorid", name="uq_flavors_flavorid"),
        sa.UniqueConstraint("name", name="uq_flavors_name"),
        **OPTIONS)


def _flavor_projects() -> None:
    op.create_table(
        "flavor_projects",
        sa.Column("flavor_id", Id, autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("flavor_id", "project_id", name="pk_flavor_projects_flavor_id_project_id"),
        **OPTIONS)


def _key_pairs() -> None:
    op.create_table(
        "key_pairs",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("fingerprint", sa.String(255), nullable=False),
        sa.Column("public_key", Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_key_pairs_id"),
        sa.UniqueConstraint("user_id", "name", name="uq_key_pairs_user_id_name"),
        **OPTIONS)


def _aggregates() -> None:
    op.create_table(
        "aggregates",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("metadata", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_aggregates_id"),
        sa.UniqueConstraint("name", name="uq_aggregates_name"),
        sa.UniqueConstraint("uuid", name="uq_aggregates_uuid"),
        **OPTIONS)


def _aggregate_hosts() -> None:
    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", Id, autoincrement=False, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("aggregate_id", "host", name="pk_aggregate_hosts_aggregate_id_host"),
        **OPTIONS)


def _server_groups() -> None:
    op.create_table(
        "server_groups",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("rules", Json, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_server_groups_id"),
        sa.UniqueConstraint("uuid", name="uq_server_groups_uuid"),
        **OPTIONS)


def _server_group_members() -> None:
    op.create_table(
        "server_group_members",
        sa.Column("group_uuid", sa.String(36), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("group_uuid", "instance_uuid", name="pk_server_group_members_group_uuid_instance_uuid"),
        **OPTIONS)


def _quotas() -> None:
    op.create_table(
        "quotas",
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("resource", sa.String(64), nullable=False),
        sa.Column("hard_limit", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "user_id", "resource", name="pk_quotas_project_id_user_id_resource"),
        **OPTIONS)


def _quota_locks() -> None:
    op.create_table(
        "quota_locks",
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("generation", Id, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name="pk_quota_locks_project_id"),
        **OPTIONS)


def _networks() -> None:
    op.create_table(
        "networks",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255)),
        sa.Column("cidr", sa.String(64), nullable=False),
        sa.Column("gateway", sa.String(64), nullable=False),
        sa.Column("dns", Json, nullable=False),
        sa.Column("mtu", sa.Integer, nullable=False),
        sa.Column("bridge", sa.String(15), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_networks_id"),
        sa.UniqueConstraint("bridge", name="uq_networks_bridge"),
        sa.UniqueConstraint("uuid", name="uq_networks_uuid"),
        **OPTIONS)


def _ports() -> None:
    op.create_table(
        "ports",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("network_uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("mac_address", sa.String(17), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("instance_uuid", sa.String(36)),
        sa.Column("request_key", sa.String(64)),
        sa.Column("host", sa.String(255)),
        sa.PrimaryKeyConstraint("id", name="pk_ports_id"),
        sa.UniqueConstraint("mac_address", name="uq_ports_mac_address"),
        sa.UniqueConstraint("network_uuid", "address", name="uq_ports_network_uuid_address"),
        sa.UniqueConstraint("request_key", name="uq_ports_request_key"),
        sa.UniqueConstraint("uuid", name="uq_ports_uuid"),
        **OPTIONS)


TABLES = {
    "services": _services, "compute_nodes": _compute_nodes, "allocations": _allocations, "instances": _instances,
    "instance_tags": _instance_tags, "instance_actions": _instance_actions,
    "instance_action_events": _instance_action_events, "flavors": _flavors, "flavor_projects": _flavor_projects,
    "key_pairs": _key_pairs, "aggregates": _aggregates, "aggregate_hosts": _aggregate_hosts,
    "server_groups": _server_groups, "server_group_members": _server_group_members, "quotas": _quotas,
    "quota_locks": _quota_locks, "networks": _networks, "ports": _ports,
}
INDEXES = [
    ("services", ["binary"], "ix_services_binary"),
    ("compute_nodes", ["updated_at"], "ix_compute_nodes_updated_at"),
    ("allocations", ["compute_node_id"], "ix_allocations_compute_node_id"),
    ("instances", ["deleted", "created_at"], "ix_instances_deleted"),
    ("instances", ["deleted_at"], "ix_instances_deleted_at"),
    ("instances", ["host", "deleted"], "ix_instances_host"),
    ("instances", ["project_id", "deleted", "created_at"], "ix_instances_project_id"),
    ("instances", ["reservation_id"], "ix_instances_reservation_id"),
    ("instances", ["updated_at"], "ix_instances_updated_at"),
    ("instance_actions", ["host", "state"], "ix_instance_actions_host"),
    ("instance_actions", ["instance_uuid"], "ix_instance_actions_instance_uuid"),
    ("instance_actions", ["request_id"], "ix_instance_actions_request_id"),
    ("instance_actions", ["state", "lease_until"], "ix_instance_actions_state"),
    ("instance_action_events", ["action_id"], "ix_instance_action_events_action_id"),
    ("server_groups", ["project_id"], "ix_server_groups_project_id"),
    ("server_group_members", ["instance_uuid"], "ix_server_group_members_instance_uuid"),
    ("ports", ["instance_uuid"], "ix_ports_instance_uuid"),
]
