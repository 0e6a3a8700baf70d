"""[console]: what all consoles and their proxies share."""
from oslo_config import cfg

GROUP = "console"
OPTS = [
    cfg.StrOpt("server_listen", default="127.0.0.1",
               help="Address of this host at which the consoles of its guests listen. Only the proxies may reach it."),
    cfg.StrOpt("server_proxyclient_address", default="$my_ip", help="Address by which the proxies reach this host's consoles."),
    cfg.IntOpt("token_ttl", default=600, min=1, help="Seconds in which the URL of a console can be used."),
    cfg.HostAddressOpt("proxy_listen", default="0.0.0.0", help="Address of the proxies."),  # noqa: S104
    cfg.ListOpt("allowed_origins", default=[],
                help="Hosts whose web pages may open consoles, besides the proxy's own pages, such as a dashboard."),
    cfg.StrOpt("tls_cert_file", default="", help="Certificate chain (PEM) of the proxies: serves https and wss."),
    cfg.StrOpt("tls_key_file", default="", help="Private key (PEM) of tls_cert_file."),
]
