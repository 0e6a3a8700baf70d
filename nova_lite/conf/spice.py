"""[spice]: the graphical console by SPICE, in a browser by way of spice-html5."""
from oslo_config import cfg

GROUP = "spice"
OPTS = [
    cfg.BoolOpt("enabled", default=False, help="Guests have a screen with SPICE."),
    cfg.StrOpt("html5proxy_base_url", default="http://127.0.0.1:6082/spice_auto.html",
               help="Where browsers reach spice-html5's page at nova-lite-spicehtml5proxy; compute hosts read it."),
    cfg.PortOpt("html5proxy_port", default=6082, help="Port of nova-lite-spicehtml5proxy."),
    cfg.StrOpt("spice_direct_proxy_base_url", default="http://127.0.0.1:13002/nova",
               help="Where a proxy for native SPICE clients is reached, which asks for the connection of a token."),
]
