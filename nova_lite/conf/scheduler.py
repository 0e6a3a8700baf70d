"""[scheduler]: filters, weighers and their multipliers."""
from oslo_config import cfg

GROUP = "scheduler"
OPTS = [
    cfg.IntOpt("workers", default=1, min=1, help="Processes of the scheduler."),
    cfg.IntOpt("max_attempts", default=3, min=1, help="Hosts on which one build is tried: the best and its alternates."),
    cfg.ListOpt("enabled_filters", default=[
        "ComputeFilter", "ForcedHostFilter", "AvailabilityZoneFilter", "CoreFilter", "RamFilter", "DiskFilter",
        "ImagePropertiesFilter", "HostTraitsFilter", "NUMATopologyFilter",
        "PciPassthroughFilter", "SameHostFilter", "DifferentHostFilter",
        "IsolatedHostsFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"],
        help="Filters in their order (entry points nova_lite.scheduler.filters)."),
    cfg.DictOpt("weight_multipliers", default={
        "RAMWeigher": "1.0", "CPUWeigher": "1.0", "DiskWeigher": "1.0", "IoOpsWeigher": "-1.0",
        "BuildFailureWeigher": "-1000000.0", "ServerGroupSoftAffinityWeigher": "1.0",
        "ServerGroupSoftAntiAffinityWeigher": "1.0"},
        help="Weighers and their multipliers (entry points nova_lite.scheduler.weights)."),
    cfg.IntOpt("host_subset_size", default=1, min=1, help="Choose at random among this many best hosts."),
    cfg.ListOpt("isolated_hosts", default=[], help="Hosts kept for isolated_images."),
    cfg.ListOpt("isolated_images", default=[], help="Images that only run on isolated_hosts."),
]
