"""[notifications]: messages for billing and monitoring."""
from oslo_config import cfg

GROUP = "notifications"
OPTS = [
    cfg.StrOpt("format", default="none", choices=["none", "versioned", "unversioned", "both"],
               help="Which notifications are sent: Nova's versioned ones (topic versioned_notifications), the older "
                    "unversioned ones (topics of [oslo_messaging_notifications]), both, or none."),
]
