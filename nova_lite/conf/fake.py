"""[fake]: the fake hypervisor, for tests and benchmarks."""
from oslo_config import cfg

GROUP = "fake"
OPTS = [
    cfg.IntOpt("hosts", default=1, min=1, help="Hosts that one nova-lite-compute plays: <host>, <host>-2, <host>-3 ..."),
    cfg.IntOpt("vcpus", default=1000, help="Physical CPUs of each."),
    cfg.IntOpt("memory_mb", default=800000, help="MiB of memory of each."),
    cfg.IntOpt("disk_gb", default=600000, help="GiB of disk of each."),
    cfg.MultiStrOpt("pci_devices", default=[],
                    help="PCI devices of each, as JSON: address, vendor_id, product_id, dev_type, parent."),
    cfg.FloatOpt("delay", default=0.0, min=0.0, help="Seconds that each operation takes."),
    cfg.ListOpt("fail", default=[],
                help="operation[@host][:probability] of operations that fail, e.g. spawn@node-2, spawn:0.1."),
    cfg.BoolOpt("fetch_images", default=False, help="Download images as a real hypervisor does, each once."),
    cfg.StrOpt("state_file", default="", help="Keep the guests in this file, so that they survive a restart as real ones do."),
]
