"""[wsgi]: the HTTP servers: APIs, metadata service, console proxies."""
from oslo_config import cfg

GROUP = "wsgi"
OPTS = [
    cfg.IntOpt("max_connections", default=1000, min=2,
               help="Connections that each server of each worker process takes. One more takes the place of an idle one."),
    cfg.IntOpt("max_connections_per_address", default=250, min=1,
               help="Of these, the connections from one address. Set it to max_connections behind a load balancer."),
]
