"""[conductor]: durable actions."""
from oslo_config import cfg

GROUP = "conductor"
OPTS = [
    cfg.IntOpt("workers", default=1, min=1, help="Processes of the conductor."),
    cfg.IntOpt("lease_seconds", default=30, min=2,
               help="How long a worker may be silent before its action is given to another one."),
    cfg.IntOpt("sweep_interval", default=5, min=1, help="Seconds between two looks for actions that nobody holds."),
    cfg.IntOpt("max_attempts", default=5, min=1,
               help="How often an action is taken up again after its worker died, before it ends in ERROR."),
]
