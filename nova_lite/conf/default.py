"""[DEFAULT]: who this host is and where it keeps its files."""
import socket

from oslo_config import cfg

GROUP = "DEFAULT"
OPTS = [
    cfg.StrOpt("host", default=socket.gethostname(), sample_default="<hostname>",
               help="Name of this host: its RPC address and the key of its service record. Never change it on a host with "
                    "guests."),
    cfg.StrOpt("my_ip", default="127.0.0.1", help="Address of this host for its neighbours (migration, consoles)."),
    cfg.StrOpt("state_path", default="/var/lib/nova_lite", help="Directory of everything that the service keeps on disk."),
    cfg.IntOpt("graceful_shutdown_timeout", default=60, min=0,
               help="Seconds after SIGTERM in which requests, messages and operations in flight are finished; 0: no limit."),
]
