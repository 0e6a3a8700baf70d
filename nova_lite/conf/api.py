"""[api]: the REST service."""
from oslo_config import cfg

GROUP = "api"
OPTS = [
    cfg.HostAddressOpt("listen", default="0.0.0.0", help="Address of the compute API."),  # noqa: S104
    cfg.PortOpt("port", default=8774, help="Port of the compute API."),
    cfg.IntOpt("workers", default=1, min=1, help="Processes that answer the compute API."),
    cfg.StrOpt("paste_config", default="", help="Path of api-paste.ini; empty: the one that is installed or in the checkout."),
    cfg.StrOpt("auth_strategy", default="keystone", choices=["keystone", "embedded", "noauth2"],
               help="keystone: keystonemiddleware. embedded: users of this machine, see nova_lite/embedded/identity/local.py. "
                    "noauth2: for tests only; the token 'user:project' is believed."),
    cfg.IntOpt("max_limit", default=1000, min=1, help="Most items that one list answer holds."),
    cfg.BoolOpt("enable_instance_password", default=True, help="Answer adminPass to create, rebuild and rescue."),
    cfg.StrOpt("link_prefix", default="", help="Public URL of the compute API for links, where it is behind a proxy."),
    cfg.StrOpt("tls_cert_file", default="", help="Certificate chain (PEM): serves HTTPS. Needs tls_key_file."),
    cfg.StrOpt("tls_key_file", default="", help="Private key (PEM) of tls_cert_file."),
]
