"""[conductor]: durable actions."""
from oslo_config import cfg

GROUP = "conductor"
OPTS = [
    cfg.IntOpt("workers", default=1, min=1, help="Processes of the conductor."),
    cfg.IntOpt("lease_seconds", default=30, min=2,
               help="Seconds without a renewal of its lease after which an action is given to another worker."),
    cfg.IntOpt("sweep_interval", default=5, min=1, help="Seconds between two sweeps for actions whose lease ran out."),
    cfg.IntOpt("max_attempts", default=5, min=1,
               help="Workers that may die over an action; with the last of them it ends in ERROR."),
]
