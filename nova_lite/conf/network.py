"""[network]: what guests are connected to."""
from oslo_config import cfg

GROUP = "network"
OPTS = [
    cfg.StrOpt("driver", default="bridge",
               help="bridge: Linux bridges with addresses, DHCP and metadata of our own. null: guests have no network."),
    cfg.StrOpt("bridge_prefix", default="nlbr", help="Start of the names of the bridges that the bridge driver makes."),
    cfg.StrOpt("netns", default="", help="Network namespace in which the bridges live; empty: the host's own."),
    cfg.IntOpt("mtu", default=1500, min=576, help="MTU of new embedded networks."),
]
