"""[service_user]: who nova_lite is to its neighbours. Credentials as keystoneauth reads them (auth_url, username, ...)."""
from oslo_config import cfg

GROUP = "service_user"
OPTS = [
    cfg.StrOpt("region_name", default="", help="Region whose endpoints are used; empty: the only one of the catalog."),
    cfg.ListOpt("valid_interfaces", default=["internal", "public"], help="Interfaces of the catalog, the best first."),
    cfg.IntOpt("timeout", default=20, min=1,
               help="Seconds that a service may take for one answer to the request of a user; twice that for other calls."),
    cfg.IntOpt("retries", default=2, min=0, help="How often a call that may be run twice is tried again."),
]
