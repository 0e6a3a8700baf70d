"""[compute]: the daemon of a compute host."""
from oslo_config import cfg

GROUP = "compute"
OPTS = [
    cfg.StrOpt("driver", default="libvirt", help="Hypervisor driver (entry points nova_lite.virt): libvirt or fake."),
    cfg.IntOpt("report_interval", default=10, min=1,
               help="Seconds between heartbeats, which carry liveness, inventory and leases."),
    cfg.IntOpt("service_down_time", default=30, min=2, help="Seconds of silence after which a service counts as down."),
    cfg.StrOpt("default_availability_zone", default="nova", help="Zone of hosts that are in no zone's aggregate."),
    cfg.IntOpt("max_concurrent_builds", default=10, min=1, help="Guests that one host builds at the same time."),
    cfg.IntOpt("shutdown_timeout", default=60, min=0, help="Seconds that a guest gets to power itself off."),
    cfg.BoolOpt("allow_resize_to_same_host", default=False, help="A resize may leave the server on its host."),
    cfg.IntOpt("resize_confirm_window", default=0, min=0,
               help="Seconds after which a resize or cold migration is confirmed, if its user did not decide; 0: never."),
    cfg.IntOpt("sync_power_state_interval", default=60, min=-1,
               help="Seconds between two comparisons of all guests with their servers; 0 or -1: never."),
    cfg.IntOpt("heal_instance_info_cache_interval", default=60, min=-1,
               help="Seconds between two questions of a host to Neutron for all its ports, by which lost events are found; 0 "
                    "or -1: never."),
    cfg.IntOpt("shelved_offload_time", default=0, min=-1,
               help="Seconds after which a shelved server leaves its host; 0: at once, -1: never."),
    cfg.IntOpt("reclaim_instance_interval", default=0, min=0,
               help="Seconds in which a deleted server can be restored; 0: servers are deleted at once."),
    cfg.BoolOpt("resume_guests_state_on_host_boot", default=False, help="Start guests that ran before the host went down."),
    cfg.BoolOpt("force_config_drive", default=False, help="Give each guest a config drive."),
    cfg.StrOpt("instance_name_template", default="instance-%08x", help="Name of the domain, from the instance's number."),
    cfg.FloatOpt("cpu_allocation_ratio", default=4.0, min=0.1, help="Virtual CPUs promised per physical one."),
    cfg.FloatOpt("ram_allocation_ratio", default=1.0, min=0.1, help="Memory promised per memory."),
    cfg.FloatOpt("disk_allocation_ratio", default=1.0, min=0.1, help="Disk promised per disk."),
    cfg.IntOpt("reserved_host_cpus", default=0, min=0, help="Physical CPUs kept for the host."),
    cfg.IntOpt("reserved_host_memory_mb", default=512, min=0, help="MiB of memory kept for the host."),
    cfg.IntOpt("reserved_host_disk_gb", default=0, min=0, help="GiB of disk kept for the host."),
]
