"""The tables, as SQLAlchemy Core. What is never joined or filtered on lives in JSON columns.

Times are UTC without zone, microseconds kept. ``instances.deleted`` is 0 for a living server and its own id for a deleted one:
deleted rows stay listable (``changes-since``) until ``[database] purge_deleted_after`` and then go in one statement.
"""
from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from nova_lite.db import addresses

metadata = sa.MetaData(naming_convention={
    "ix": "ix_%(table_name)s_%(column_0_N_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"})

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
Ratio = sa.Float().with_variant(mysql.DOUBLE(asdecimal=False), "mysql", "mariadb")     # MySQL's FLOAT has 24 bits only
Json = sa.JSON(none_as_null=True)
Text = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def _id() -> sa.Column[int]:
    return sa.Column("id", Id, primary_key=True, autoincrement=True)


def _times() -> tuple[sa.Column, sa.Column]:
    return sa.Column("created_at", Time, nullable=False), sa.Column("updated_at", Time)


# one row: which cloud this database is of
cloud = sa.Table(
    "cloud", metadata,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("created_at", Time, nullable=False),
)

services = sa.Table(
    "services", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("binary", sa.String(64), nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False, default=False),
    sa.Column("disabled_reason", sa.String(255)),
    sa.Column("forced_down", sa.Boolean, nullable=False, default=False),
    sa.Column("last_seen_at", Time, nullable=False),
    # of conductors: when they received the reports of compute hosts (conductor/bus_health.py)
    sa.Column("listening_since", Time),
    sa.Column("listened_until", Time),
    sa.UniqueConstraint("host", "binary"),
    sa.Index("ix_services_binary", "binary", "updated_at"),
)

compute_nodes = sa.Table(
    "compute_nodes", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("hypervisor_hostname", sa.String(255), nullable=False),
    sa.Column("host_ip", sa.String(64)),
    sa.Column("hypervisor_type", sa.String(64), nullable=False),
    sa.Column("hypervisor_version", sa.Integer, nullable=False),
    sa.Column("cpu_info", Json),
    sa.Column("supported_instances", Json),      # [[architecture, hypervisor type, vm mode], ...]
    sa.Column("traits", Json),
    sa.Column("numa_topology", Json),            # objects.hardware.placement.HostCell, one for each node
    sa.Column("pci_devices", Json),              # objects.hardware.pci.PciDevice as the host told; the table has who has them
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("local_gb", sa.Integer, nullable=False),
    sa.Column("reserved_vcpus", sa.Integer, nullable=False, default=0),
    sa.Column("reserved_memory_mb", sa.Integer, nullable=False, default=0),
    sa.Column("reserved_local_gb", sa.Integer, nullable=False, default=0),
    sa.Column("cpu_allocation_ratio", Ratio, nullable=False, default=1.0),
    sa.Column("ram_allocation_ratio", Ratio, nullable=False, default=1.0),
    sa.Column("disk_allocation_ratio", Ratio, nullable=False, default=1.0),
    # the sums of the node's allocations: changed with them in one transaction, by conditional UPDATE only
    sa.Column("vcpus_used", sa.Integer, nullable=False, default=0),
    sa.Column("memory_mb_used", sa.Integer, nullable=False, default=0),
    sa.Column("local_gb_used", sa.Integer, nullable=False, default=0),
    sa.Column("instances_used", sa.Integer, nullable=False, default=0),
    sa.Column("disk_available_least", sa.Integer),
    sa.Column("free_disk_gb", sa.Integer),
    sa.Column("uptime", sa.String(255)),
    sa.Column("io_ops", sa.Integer, nullable=False, default=0),
    sa.Column("failed_builds", sa.Integer, nullable=False, default=0),
    sa.UniqueConstraint("host", "hypervisor_hostname"),
    sa.Index("ix_compute_nodes_updated_at", "updated_at"),
)

allocations = sa.Table(
    "allocations", metadata, _id(), *_times(),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    sa.Column("compute_node_id", Id, nullable=False),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("disk_gb", sa.Integer, nullable=False),
    sa.Column("pci_devices", sa.Integer, nullable=False, default=0, server_default="0"),      # how many; see pci_devices
    sa.UniqueConstraint("instance_uuid", "compute_node_id"),
    sa.Index("ix_allocations_compute_node_id", "compute_node_id"),
)

# the devices that hosts offer to guests, and who has them
pci_devices = sa.Table(
    "pci_devices", metadata, _id(), *_times(),
    sa.Column("compute_node_id", Id, nullable=False),
    sa.Column("address", sa.String(16), nullable=False),
    sa.Column("vendor_id", sa.String(4), nullable=False),
    sa.Column("product_id", sa.String(4), nullable=False),
    sa.Column("dev_type", sa.String(8), nullable=False),
    sa.Column("numa_node", sa.Integer),
    sa.Column("parent", sa.String(16)),          # address of the physical function of a virtual one
    sa.Column("gone", sa.Boolean, nullable=False, default=False),      # the host does not offer it any more
    sa.Column("consumer", sa.String(36)),        # as allocations.instance_uuid
    sa.UniqueConstraint("compute_node_id", "address"),
    sa.Index("ix_pci_devices_consumer", "consumer"),
)

instances = sa.Table(
    "instances", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("display_name", sa.String(255), nullable=False),
    sa.Column("display_description", sa.String(255)),
    sa.Column("hostname", sa.String(255)),
    sa.Column("reservation_id", sa.String(32)),
    sa.Column("launch_index", sa.Integer, nullable=False, default=0),
    sa.Column("vm_state", sa.String(32), nullable=False),
    sa.Column("task_state", sa.String(64)),
    sa.Column("power_state", sa.Integer, nullable=False, default=0),
    sa.Column("progress", sa.Integer, nullable=False, default=0),
    sa.Column("image_ref", sa.String(255), nullable=False, default=""),
    sa.Column("image", Json),                    # objects.ImageMeta as it was at the build
    sa.Column("flavor_ref", sa.String(255), nullable=False),   # the flavor's public id
    sa.Column("flavor", Json, nullable=False),   # objects.Flavor as it was at the build
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("root_gb", sa.Integer, nullable=False),
    sa.Column("key_name", sa.String(255)),
    sa.Column("keypair", Json),                  # {"name", "type", "public_key"} as it was at the build
    sa.Column("host", sa.String(255)),
    sa.Column("node", sa.String(255)),
    sa.Column("launched_on", sa.String(255)),
    sa.Column("availability_zone", sa.String(255)),            # where it runs
    sa.Column("pinned_availability_zone", sa.String(255)),     # what the user asked for
    sa.Column("config_drive", sa.Boolean, nullable=False, default=False),
    sa.Column("user_data", Text),
    sa.Column("root_device_name", sa.String(255)),
    sa.Column("access_ip_v4", sa.String(39)),
    sa.Column("access_ip_v6", sa.String(39)),
    sa.Column("auto_disk_config", sa.Boolean, nullable=False, default=False),
    sa.Column("locked", sa.Boolean, nullable=False, default=False),
    sa.Column("locked_by", sa.String(16)),       # owner or admin
    sa.Column("locked_reason", sa.String(255)),
    sa.Column("metadata", Json, nullable=False),
    sa.Column("system_metadata", Json, nullable=False),
    sa.Column("network_request", Json),          # "auto", "none" or a list of objects.NetworkRequest
    sa.Column("network_info", Json, nullable=False),           # list of objects.VIF
    sa.Column("addresses", sa.String(addresses.LONGEST), nullable=False, default=addresses.MANY, server_default=addresses.MANY),
    sa.Column("security_groups", Json, nullable=False),        # names
    sa.Column("block_devices", Json),            # list of objects.BlockDevice
    sa.Column("shares", Json),                   # list of objects.ShareAttachment
    sa.Column("scheduler_hints", Json, nullable=False),
    sa.Column("requested_destination", Json),    # {"host", "node", "force": bool} or null
    sa.Column("trusted_certs", Json),
    sa.Column("personality", Json),              # [{"path", "contents"(base64)}], emptied after a (re)build
    sa.Column("fault", Json),                    # {"code", "message", "details", "created"}
    sa.Column("launched_at", Time),
    sa.Column("terminated_at", Time),
    sa.Column("deleted_at", Time),
    sa.Column("deleted", Id, nullable=False, default=0),
    # pages of lists (db/instance_list.py) are found in one of these alone, and in its order
    sa.Index("ix_instances_list", "deleted", "created_at", "id", "uuid", "display_name", "addresses", "vm_state"),
    sa.Index("ix_instances_project_list", "project_id", "deleted", "created_at", "id", "uuid", "display_name", "addresses",
             "vm_state"),
    sa.Index("ix_instances_display_name", "deleted", "display_name", "created_at", "id", "vm_state"),
    sa.Index("ix_instances_host", "deleted", "host", "created_at", "id", "vm_state"),
    sa.Index("ix_instances_vm_state", "deleted", "vm_state", "created_at", "id"),
    sa.Index("ix_instances_updated_at", "updated_at", "deleted", "created_at", "id", "vm_state"),
    sa.Index("ix_instances_usage", "project_id", "uuid", "launched_at", "terminated_at"),
    sa.Index("ix_instances_quotas", "project_id", "deleted", "user_id", "vcpus", "memory_mb"),
    sa.Index("ix_instances_task_state", "deleted", "task_state"),      # Sweeper.settle_orphans
    sa.Index("ix_instances_project_updated", "project_id", "updated_at"),
    sa.Index("ix_instances_deleted_at", "deleted_at"),
    sa.Index("ix_instances_reservation_id", "reservation_id"),
)

instance_tags = sa.Table(
    "instance_tags", metadata,
    sa.Column("instance_uuid", sa.String(36), primary_key=True),
    sa.Column("tag", sa.String(60), primary_key=True),
    sa.Index("ix_instance_tags_tag", "tag"),
)

# What is to be done, for whom, with which arguments, who works on it and until when: the heart of the service.
instance_actions = sa.Table(
    "instance_actions", metadata, _id(), *_times(),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    sa.Column("action", sa.String(64), nullable=False),        # the public name: create, delete, stop, ...
    sa.Column("verb", sa.String(64)),            # a key of operations.VERBS; none where it was done at once (lock, unlock ...)
    sa.Column("step", sa.String(32)),            # of operations/steps.py; none where the state of the server tells it
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("user_id", sa.String(255)),
    sa.Column("project_id", sa.String(255)),
    sa.Column("start_time", Time, nullable=False),
    sa.Column("finish_time", Time),
    sa.Column("message", sa.String(255)),        # why it failed, as the user may read it
    sa.Column("state", sa.String(16), nullable=False),         # pending, running, done, error
    sa.Column("stage", sa.String(16)),           # who has to work on it: conductor or compute
    sa.Column("host", sa.String(255)),           # the host, when the stage is compute
    sa.Column("arguments", Json, nullable=False),
    sa.Column("context", Json),                  # context.to_rpc()
    sa.Column("owner", sa.String(128)),          # the process that holds the lease
    sa.Column("lease_until", Time),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Index("ix_instance_actions_instance_uuid", "instance_uuid"),
    sa.Index("ix_instance_actions_request_id", "request_id"),
    sa.Index("ix_instance_actions_state", "state", "lease_until"),
    sa.Index("ix_instance_actions_host", "host", "state"),
)

instance_action_events = sa.Table(
    "instance_action_events", metadata, _id(), *_times(),
    sa.Column("action_id", Id, nullable=False),
    sa.Column("event", sa.String(128), nullable=False),
    sa.Column("host", sa.String(255)),
    sa.Column("start_time", Time, nullable=False),
    sa.Column("finish_time", Time),
    sa.Column("result", sa.String(32)),          # Success or Error
    sa.Column("traceback", Text),
    sa.Column("details", sa.String(255)),
    sa.Index("ix_instance_action_events_action_id", "action_id"),
)

# moves of servers; until one has ended, its uuid holds the room of the old place (allocations.instance_uuid)
migrations = sa.Table(
    "migrations", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    sa.Column("migration_type", sa.String(32), nullable=False),
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("source_compute", sa.String(255)),
    sa.Column("source_node", sa.String(255)),
    sa.Column("dest_compute", sa.String(255)),
    sa.Column("dest_node", sa.String(255)),
    sa.Column("dest_host", sa.String(255)),      # an address
    sa.Column("old_flavor", Json),               # objects.Flavor before and after
    sa.Column("new_flavor", Json),
    sa.Column("facts", Json),                    # what the hosts tell each other
    *(sa.Column(f"{what}_{part}", sa.BigInteger)
      for what in ("memory", "disk") for part in ("total", "processed", "remaining")),
    sa.Column("user_id", sa.String(255)),
    sa.Column("project_id", sa.String(255)),
    sa.Index("ix_migrations_instance_uuid", "instance_uuid"),
    sa.Index("ix_migrations_source", "source_compute"),
    sa.Index("ix_migrations_dest", "dest_compute"),
    sa.Index("ix_migrations_status", "status", "updated_at"),
    sa.Index("ix_migrations_created_at", "created_at"),
)

flavors = sa.Table(
    "flavors", metadata, _id(), *_times(),
    sa.Column("flavorid", sa.String(255), nullable=False, unique=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("vcpus", sa.Integer, nullable=False),
    sa.Column("root_gb", sa.Integer, nullable=False),
    sa.Column("ephemeral_gb", sa.Integer, nullable=False, default=0),
    sa.Column("swap", sa.Integer, nullable=False, default=0),
    sa.Column("rxtx_factor", Ratio, nullable=False, default=1.0),
    sa.Column("disabled", sa.Boolean, nullable=False, default=False),
    sa.Column("is_public", sa.Boolean, nullable=False, default=True),
    sa.Column("description", Text),
    sa.Column("extra_specs", Json, nullable=False),
)

flavor_projects = sa.Table(
    "flavor_projects", metadata,
    sa.Column("flavor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("project_id", sa.String(255), primary_key=True),
)

key_pairs = sa.Table(
    "key_pairs", metadata, _id(), *_times(),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("type", sa.String(16), nullable=False),
    sa.Column("fingerprint", sa.String(255), nullable=False),
    sa.Column("public_key", Text, nullable=False),
    sa.UniqueConstraint("user_id", "name"),
)

aggregates = sa.Table(
    "aggregates", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("metadata", Json, nullable=False),               # availability_zone is one of its keys
)

aggregate_hosts = sa.Table(
    "aggregate_hosts", metadata,
    sa.Column("aggregate_id", Id, primary_key=True, autoincrement=False),
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Index("ix_aggregate_hosts_host", "host"),
)

server_groups = sa.Table(
    "server_groups", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("policy", sa.String(64), nullable=False),
    sa.Column("rules", Json, nullable=False),
    # raised by each claim for a member: serialises two schedulers that place members of one group
    sa.Column("generation", sa.Integer, nullable=False, default=0),
    sa.Index("ix_server_groups_project_id", "project_id"),
)

server_group_members = sa.Table(
    "server_group_members", metadata,
    sa.Column("group_uuid", sa.String(36), primary_key=True),
    sa.Column("instance_uuid", sa.String(36), primary_key=True),
    sa.Index("ix_server_group_members_instance_uuid", "instance_uuid"),
)

# one row per override; project_id "" is the class "default"; user_id "" is the whole project
quotas = sa.Table(
    "quotas", metadata,
    sa.Column("project_id", sa.String(255), primary_key=True),
    sa.Column("user_id", sa.String(255), primary_key=True),
    sa.Column("resource", sa.String(64), primary_key=True),
    sa.Column("hard_limit", sa.Integer, nullable=False),
)

# a row per project: locked by whoever creates what counts against its quota, so that the check cannot be overtaken
quota_locks = sa.Table(
    "quota_locks", metadata,
    sa.Column("project_id", sa.String(255), primary_key=True),
    sa.Column("generation", Id, nullable=False, default=0),
)

console_auth_tokens = sa.Table(
    "console_auth_tokens", metadata, _id(), *_times(),
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),       # SHA-256; the token itself is not kept
    sa.Column("instance_uuid", sa.String(36), nullable=False),
    sa.Column("compute_host", sa.String(255), nullable=False),
    sa.Column("console_type", sa.String(32), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("tls_port", sa.Integer),
    sa.Column("internal_access_path", sa.String(255)),
    sa.Column("expires_at", Time, nullable=False),
    sa.Index("ix_console_auth_tokens_instance_uuid", "instance_uuid"),
    sa.Index("ix_console_auth_tokens_expires_at", "expires_at"),
)

# the keys of compute hosts (rpc/sender.py), which are made of the control plane's: none of them is kept
host_keys = sa.Table(
    "host_keys", metadata,
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("revoked_at", Time),
)

# signed messages that have come; those too old to count are removed (conductor/rpc_permissions.py)
rpc_nonces = sa.Table(
    "rpc_nonces", metadata,
    sa.Column("nonce", sa.String(64), primary_key=True),
    sa.Column("expires_at", sa.BigInteger, nullable=False),     # seconds since 1970
    sa.Index("ix_rpc_nonces_expires_at", "expires_at"),
)

# which conductor runs each periodic task of the cluster (conductor/periodic.py)
periodic_tasks = sa.Table(
    "periodic_tasks", metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(255)),
    sa.Column("lease_until", Time, nullable=False),
    sa.Column("last_run_at", Time),
)

# the embedded network (embedded/network/bridge.py); unused where Neutron serves
networks = sa.Table(
    "networks", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255)),     # null: shared by all
    sa.Column("cidr", sa.String(64), nullable=False),
    sa.Column("gateway", sa.String(64), nullable=False),
    sa.Column("dns", Json, nullable=False),
    sa.Column("mtu", sa.Integer, nullable=False),
    sa.Column("bridge", sa.String(15), nullable=False, unique=True),
)

ports = sa.Table(
    "ports", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("network_uuid", sa.String(36), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False, default=""),
    sa.Column("mac_address", sa.String(17), nullable=False, unique=True),
    sa.Column("address", sa.String(64), nullable=False),
    sa.Column("instance_uuid", sa.String(36)),
    # "<instance uuid>/<position>" for ports that a build made: makes a second run of that build find them again
    sa.Column("request_key", sa.String(64), unique=True),
    sa.Column("host", sa.String(255)),
    sa.UniqueConstraint("network_uuid", "address"),
    sa.Index("ix_ports_instance_uuid", "instance_uuid"),
    sa.Index("ix_ports_address", "address"),
    sa.Index("ix_ports_host", "host"),
)

# its security groups; each project has one "default" from its first need
security_groups = sa.Table(
    "security_groups", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("description", sa.String(255), nullable=False, default=""),
    sa.Index("ix_security_groups_project_id", "project_id"),
)

security_group_rules = sa.Table(
    "security_group_rules", metadata, _id(), *_times(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("group_uuid", sa.String(36), nullable=False),
    sa.Column("direction", sa.String(8), nullable=False),      # network.group_rules.Rule
    sa.Column("ethertype", sa.String(8), nullable=False),
    sa.Column("protocol", sa.String(32)),
    sa.Column("port_min", sa.Integer),
    sa.Column("port_max", sa.Integer),
    sa.Column("remote_cidr", sa.String(64)),
    sa.Column("remote_group_uuid", sa.String(36)),
    sa.Column("description", sa.String(255), nullable=False, default=""),
    sa.Index("ix_security_group_rules_group_uuid", "group_uuid"),
    sa.Index("ix_security_group_rules_remote_group_uuid", "remote_group_uuid"),
)

port_security_groups = sa.Table(
    "port_security_groups", metadata,
    sa.Column("port_uuid", sa.String(36), primary_key=True),
    sa.Column("group_uuid", sa.String(36), primary_key=True),
    sa.Index("ix_port_security_groups_group_uuid", "group_uuid"),
)
