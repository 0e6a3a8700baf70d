"""[serial_console]: the serial console by websocket."""
from oslo_config import cfg

GROUP = "serial_console"
OPTS = [
    cfg.BoolOpt("enabled", default=False, help="Users may type at the serial consoles of guests that start from now on."),
    cfg.StrOpt("base_url", default="ws://127.0.0.1:6083/",
               help="Where websocket clients reach nova-lite-serialproxy; compute hosts read it."),
    cfg.StrOpt("port_range", default="10000:20000", regex=r"^\d{1,5}:\d{1,5}$",
               help="Ports of this host at which serial consoles listen, first and last."),
    cfg.PortOpt("serialproxy_port", default=6083, help="Port of nova-lite-serialproxy."),
]
