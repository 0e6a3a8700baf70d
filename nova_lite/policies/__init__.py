"""Who may do what: the defaults of oslo.policy, one file per resource.

Every rule is denied unless its check passes. Names are Nova's, so that an operator's policy.yaml carries over.
"""
from __future__ import annotations

from oslo_policy import policy

from nova_lite.policies import (
    admin_actions,
    admin_password,
    aggregates,
    assisted_volume_snapshots,
    attach_interfaces,
    availability_zone,
    baremetal_nodes,
    base,
    console_auth_tokens,
    console_output,
    create_backup,
    deferred_delete,
    evacuate,
    extended_server_attributes,
    extensions,
    flavor_access,
    flavor_extra_specs,
    flavor_manage,
    floating_ip_pools,
    floating_ips,
    hosts,
    hypervisors,
    instance_actions,
    instance_usage_audit_log,
    ips,
    keypairs,
    limits,
    lock_server,
    migrate_server,
    migrations,
    multinic,
    networks,
    pause_server,
    quota_class_sets,
    quota_sets,
    remote_consoles,
    rescue,
    security_groups,
    server_diagnostics,
    server_external_events,
    server_groups,
    server_metadata,
    server_password,
    server_shares,
    server_tags,
    server_topology,
    servers,
    servers_migrations,
    services,
    shelve,
    simple_tenant_usage,
    suspend_server,
    tenant_networks,
    volumes,
    volumes_attachments,
)

MODULES = (
    admin_actions, admin_password, aggregates, assisted_volume_snapshots, attach_interfaces, availability_zone,
    baremetal_nodes, console_auth_tokens, console_output, create_backup, deferred_delete, evacuate,
    extended_server_attributes, extensions, flavor_access, flavor_extra_specs, flavor_manage, floating_ip_pools,
    floating_ips, hosts, hypervisors, instance_actions, instance_usage_audit_log, ips, keypairs, limits,
    lock_server, migrate_server, migrations, multinic, networks, pause_server, quota_class_sets, quota_sets,
    remote_consoles, rescue, security_groups, server_diagnostics, server_external_events, server_groups,
    server_metadata, server_password, server_shares, server_tags, server_topology, servers, servers_migrations,
    services, shelve, simple_tenant_usage, suspend_server, tenant_networks, volumes, volumes_attachments,
)


def list_rules() -> list[policy.RuleDefault]:
    """All rules, base rules first; also the entry point ``oslo.policy.policies``."""
    return base.list_rules() + [rule for module in MODULES for rule in module.list_rules()]
