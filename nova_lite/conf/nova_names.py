"""Where Nova has the options that are the same here under another name or in another group: both are read."""
from collections.abc import Iterable

from oslo_config import cfg

# group here -> group of Nova -> names; "ours=Nova's" where they differ
_SAME: dict[str, dict[str, str]] = {
    "api": {"DEFAULT": "listen=osapi_compute_listen port=osapi_compute_listen_port workers=osapi_compute_workers",
            "api": "link_prefix=compute_link_prefix"},
    "compute": {"DEFAULT": "report_interval service_down_time default_availability_zone max_concurrent_builds "
                           "allow_resize_to_same_host resize_confirm_window sync_power_state_interval "
                           "heal_instance_info_cache_interval shelved_offload_time reclaim_instance_interval "
                           "resume_guests_state_on_host_boot force_config_drive instance_name_template cpu_allocation_ratio "
                           "ram_allocation_ratio disk_allocation_ratio reserved_host_cpus reserved_host_memory_mb"},
    "console": {"vnc": "server_listen server_proxyclient_address proxy_listen=novncproxy_host",
                "spice": "server_listen server_proxyclient_address proxy_listen=html5proxy_host",
                "serial_console": "server_proxyclient_address=proxyclient_address proxy_listen=serialproxy_host",
                "consoleauth": "token_ttl"},
    "libvirt": {"libvirt": "migration_address=live_migration_inbound_addr"},
    "metadata": {"DEFAULT": "listen=metadata_listen port=metadata_listen_port workers=metadata_workers",
                 "api": "cache_seconds=metadata_cache_expiration vendor_data_file=vendordata_jsonfile_path",
                 "neutron": "shared_secret=metadata_proxy_shared_secret"},
    "pci": {"pci": "device_spec=passthrough_whitelist"},
    "network": {"DEFAULT": "vif_plugging_timeout vif_plugging_is_fatal"},
    # not enabled_filters: Nova leaves room to Placement, so its filters are others
    "scheduler": {"filter_scheduler": "host_subset_size isolated_hosts isolated_images"},
}


def add(group: str, options: Iterable[cfg.Opt]) -> None:
    """Let the options of a group be set under the names of Nova, too; oslo.config then logs a warning with our name."""
    known = {option.name: option for option in options}
    for theirs, names in _SAME.get(group, {}).items():
        for pair in names.split():
            ours, _, name = pair.partition("=")
            known[ours].deprecated_opts.append(cfg.DeprecatedOpt(name or ours, group=theirs))
