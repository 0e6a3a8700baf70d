"""[volume]: block storage."""
from oslo_config import cfg

GROUP = "volume"
OPTS = [
    cfg.StrOpt("driver", default="local", help="local: files of this machine. cinder: the Block Storage service."),
    cfg.StrOpt("local_path", default="$state_path/volumes", help="Directory of the local driver."),
]
