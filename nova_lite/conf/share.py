"""[share]: shares of files for servers."""
from oslo_config import cfg

GROUP = "share"
OPTS = [
    cfg.StrOpt("driver", default="none", help="none: servers get no shares. manila: those of the Shared File System service."),
]
