"""[network]: what guests are connected to."""
from oslo_config import cfg

GROUP = "network"
OPTS = [
    cfg.StrOpt("driver", default="bridge",
               help="bridge: Linux bridges with addresses, DHCP and metadata of our own. neutron: the Networking service. "
                    "fake: the networks and addresses of bridge for the fake hypervisor, with no bridges. "
                    "null: guests have no network."),
    cfg.StrOpt("bridge_prefix", default="nlbr", help="Start of the names of the bridges that the bridge driver makes."),
    cfg.StrOpt("netns", default="", help="Network namespace in which the bridges live; empty: the host's own."),
    cfg.IntOpt("vif_plugging_timeout", default=300, min=0,
               help="Seconds to wait until Neutron reports that a new guest's ports are wired; 0 does not wait."),
    cfg.BoolOpt("vif_plugging_is_fatal", default=True, help="A build whose ports are not wired in time fails."),
    cfg.IntOpt("mtu", default=1500, min=576, help="MTU of new embedded networks."),
]
