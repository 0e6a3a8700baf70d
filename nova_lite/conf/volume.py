"""[volume]: block storage."""
from oslo_config import cfg

GROUP = "volume"
OPTS = [
    cfg.StrOpt("driver", default="local", help="local: files of this machine. cinder: the Block Storage service."),
    cfg.StrOpt("local_path", default="$state_path/volumes", help="Directory of the local driver."),
    cfg.IntOpt("local_quota_gb", default=1000, min=-1,
               help="GiB of volumes and snapshots of a project in the local driver, by their sizes; -1: no limit."),
]
