"""[vnc]: the graphical console, in a browser by way of noVNC."""
from oslo_config import cfg

GROUP = "vnc"
OPTS = [
    cfg.BoolOpt("enabled", default=True, help="Guests have a screen with VNC."),
    cfg.StrOpt("novncproxy_base_url", default="http://127.0.0.1:6080/vnc_lite.html",
               help="Where browsers reach noVNC's page at nova-lite-novncproxy; compute hosts read it."),
    cfg.PortOpt("novncproxy_port", default=6080, help="Port of nova-lite-novncproxy."),
    cfg.StrOpt("vencrypt_ca_certs", default="",
               help="Certificates (PEM) of the authorities of the hosts' VNC servers. With it nova-lite-novncproxy speaks TLS "
                    "with them (vnc_tls in their qemu.conf), and opens no console that does not."),
    cfg.StrOpt("vencrypt_client_cert", default="",
               help="Certificate (PEM) that nova-lite-novncproxy shows them, for vnc_tls_x509_verify in their qemu.conf."),
    cfg.StrOpt("vencrypt_client_key", default="", help="Private key (PEM) of vencrypt_client_cert."),
]
