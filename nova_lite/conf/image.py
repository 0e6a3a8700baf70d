"""[image]: where images come from."""
from oslo_config import cfg

GROUP = "image"
OPTS = [
    cfg.StrOpt("driver", default="local", help="local: a directory of this machine. glance: the Image service."),
    cfg.StrOpt("local_path", default="$state_path/images", help="Directory of the local driver."),
]
