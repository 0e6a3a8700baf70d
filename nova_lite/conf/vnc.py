"""[vnc]: the graphical console, in a browser by way of noVNC."""
from oslo_config import cfg

GROUP = "vnc"
OPTS = [
    cfg.BoolOpt("enabled", default=True, help="Guests have a screen with VNC."),
    cfg.StrOpt("novncproxy_base_url", default="http://127.0.0.1:6080/vnc_lite.html",
               help="Where browsers reach noVNC's page at nova-lite-novncproxy; compute hosts read it."),
    cfg.PortOpt("novncproxy_port", default=6080, help="Port of nova-lite-novncproxy."),
]
