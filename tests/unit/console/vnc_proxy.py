"""A process with a proxy of VNC consoles and one token; arguments: the console's port, then the files of TLS. Says its port."""
from __future__ import annotations

import logging
import sys

import nova_lite.cmd  # noqa: F401  chooses the threads, first of all
from nova_lite import conf as nova_conf
from nova_lite.console import vencrypt
from nova_lite.console.proxy import Proxy
from nova_lite.objects.console import ConsoleAuthToken
from nova_lite.runtime.http import sockets

logging.basicConfig(level=logging.INFO)


class Tokens:
    """All are good."""

    def resolve(self, _token: str) -> ConsoleAuthToken:
        return ConsoleAuthToken("11111111-2222-3333-4444-555555555555", "host1", "novnc", "127.0.0.1", int(sys.argv[1]))


def main() -> None:
    """Until the standard input ends."""
    authorities, certificate, key = sys.argv[2:]
    conf = nova_conf.load([], config_files=[], vnc__vencrypt_ca_certs=authorities, vnc__vencrypt_client_cert=certificate,
                          vnc__vencrypt_client_key=key)
    proxy = Proxy(sockets.bind("127.0.0.1", 0), Tokens(), (), vencrypt=vencrypt.context(conf))
    proxy.start()
    print(proxy.port, flush=True)
    if nova_lite.runtime.concurrency.is_green():
        from eventlet import tpool
        tpool.execute(sys.stdin.read)
    else:
        sys.stdin.read()


if __name__ == "__main__":
    main()
