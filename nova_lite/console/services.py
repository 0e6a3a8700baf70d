"""The three proxies: which consoles each is for, where it listens, which pages it has. Shared by their mains and by the
standalone cloud."""
from __future__ import annotations

import os
from dataclasses import dataclass

from oslo_config import cfg

from nova_lite import exception
from nova_lite.objects import console as objects
from nova_lite.runtime import checks, service
from nova_lite.runtime.http import sockets

PACKAGE = {"/usr/share/novnc": "novnc", "/usr/share/spice-html5": "spice-html5"}


@dataclass(frozen=True)
class Kind:
    """One proxy. ``web`` is where Debian's package of its pages has them."""

    name: str
    console_type: str
    group: str
    option: str
    web: str = ""

    def port(self, conf: cfg.ConfigOpts) -> int:
        """The port that it listens on."""
        return int(conf[self.group][self.option])

    def add_to(self, runner: service.Service) -> None:
        """Hang the proxy into a process. Raises ConfigError when its pages, or websockify, are not installed."""
        from nova_lite.console import vencrypt
        from nova_lite.console.tokens import Tokens

        conf = runner.conf
        try:
            from nova_lite.console.proxy import Proxy
        except ModuleNotFoundError as error:
            raise exception.ConfigError(reason=f"{self.name} needs the Python package {error.name}, which is not installed "
                                               "(the extra 'console' of nova_lite)") from None
        if self.web and not os.path.isdir(self.web):
            raise exception.ConfigError(reason=f"{self.name} needs the pages of {self.web}: install the package "
                                               f"{PACKAGE[self.web]}")
        console = conf.console
        tls = sockets.tls_context(console.tls_cert_file, console.tls_key_file) if console.tls_cert_file else None
        tokens = Tokens(conf, runner.transport, [self.console_type])
        runner.add_door(Proxy(runner.bound(console.proxy_listen, self.port(conf)), tokens, console.allowed_origins, self.web,
                              tls, vencrypt.context(conf) if self.console_type == objects.NOVNC else None,
                              runner.limits))

    def main(self) -> int:
        """All that the ``main`` of its script does."""
        return service.main(self.name, self.add_to, check=(checks.check_broker,),
                            listen=lambda conf: [(conf.console.proxy_listen, self.port(conf))])


NOVNC = Kind("nova-lite-novncproxy", objects.NOVNC, "vnc", "novncproxy_port", "/usr/share/novnc")
SERIAL = Kind("nova-lite-serialproxy", objects.SERIAL, "serial_console", "serialproxy_port")
SPICE = Kind("nova-lite-spicehtml5proxy", objects.SPICE_HTML5, "spice", "html5proxy_port", "/usr/share/spice-html5")
