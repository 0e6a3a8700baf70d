"""[metadata]: the service at 169.254.169.254."""
from oslo_config import cfg

GROUP = "metadata"
OPTS = [
    cfg.HostAddressOpt("listen", default="0.0.0.0", help="Address of the metadata API."),  # noqa: S104
    cfg.PortOpt("port", default=8775, help="Port of the metadata API."),
    cfg.IntOpt("workers", default=1, min=1, help="Processes that answer the metadata API."),
    cfg.IntOpt("cache_seconds", default=15, min=0, help="How long an instance's metadata is kept; 0 keeps nothing."),
    cfg.StrOpt("shared_secret", default="", secret=True,
               help="Secret shared with Neutron's metadata agent, which signs X-Instance-ID with it."),
    cfg.StrOpt("vendor_data_file", default="",
               help="File with a JSON object that every guest reads as vendor data, by the metadata API and (set it on compute "
                    "hosts too) on its config drive. It is read when the service starts."),
]
