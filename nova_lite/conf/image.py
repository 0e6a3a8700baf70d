"""[image]: where images come from."""
from oslo_config import cfg

GROUP = "image"
OPTS = [
    cfg.StrOpt("driver", default="local", help="local: a directory of this machine. glance: the Image service."),
    cfg.StrOpt("local_path", default="$state_path/images", help="Directory of the local driver."),
    cfg.IntOpt("local_quota_gb", default=100, min=-1,
               help="GiB of images of a project in the local driver, and 1000 images; -1: no limit of either."),
]
