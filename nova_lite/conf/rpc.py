"""[rpc]: how the services reach and authenticate each other. Without keys senders are not authenticated."""
from oslo_config import cfg

GROUP = "rpc"
OPTS = [
    cfg.StrOpt("exchange", default="nova_lite", regex=r"^[A-Za-z0-9_-]+$",
               help="The exchange of all messages between services, and the first word of the names of their queues. All "
                    "services of a cloud need the same one. A second cloud on the same virtual host of RabbitMQ needs another "
                    "one."),
    cfg.StrOpt("master_key", default="", secret=True,
               help="The key of the control plane, at least 32 characters, for example of `openssl rand -hex 32`. The keys of "
                    "compute hosts are made of it. All services of the control plane and nova-lite-manage need the same one; "
                    "no compute host may have it."),
    cfg.StrOpt("host_key", default="", secret=True,
               help="The key of this compute host, as `nova-lite-manage host key-create` printed it. Its daemon, and a "
                    "metadata service beside it, sign with it what they ask the conductor."),
    cfg.BoolOpt("require_host_keys", default=False,
                help="Messages that are not signed are refused. Set it for conductors and schedulers when each compute host "
                     "has its key, and for compute hosts when all services of the control plane have the master key."),
]
