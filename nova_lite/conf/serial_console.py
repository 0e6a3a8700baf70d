"""[serial_console]: the serial console by websocket."""
from oslo_config import cfg

GROUP = "serial_console"
OPTS = [
    cfg.BoolOpt("enabled", default=False, help="Users may type at the serial consoles of their guests."),
    cfg.StrOpt("base_url", default="ws://127.0.0.1:6083/",
               help="Where websocket clients reach nova-lite-serialproxy; compute hosts read it."),
    cfg.PortOpt("server_port", default=6084,
                help="Port of the compute daemon at which the proxies get the serial consoles of its guests."),
    cfg.PortOpt("serialproxy_port", default=6083, help="Port of nova-lite-serialproxy."),
]
