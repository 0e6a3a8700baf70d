"""The server of a console proxy: a thread (green or native) for each connection, on a socket that is bound already."""
from __future__ import annotations

import socket
import ssl
from collections.abc import Collection

from oslo_log import log

from nova_lite.console.handler import Handler
from nova_lite.console.tokens import Tokens
from nova_lite.runtime.http.incoming import HEAD_SECONDS, KEEPALIVE_SECONDS, Requests
from nova_lite.runtime.http.listener import Client, Limits, Listener
from nova_lite.runtime.http.sockets import linger

LOG = log.getLogger(__name__)


class Proxy:
    """One door, as ``http.server.Server`` is another. ``web``: the directory of its pages; empty: it has none. ``tls`` is for
    browsers; ``vencrypt``: its consoles are VNC, and reached by TLS only."""

    # what websockify's handler asks its server for
    heartbeat = 30              # seconds between two pings, so that firewalls keep the connection
    file_only = True            # no lists of directories
    handler_id = 0
    verbose = traffic = daemon = run_once = record = web_auth = host_token = False

    def __init__(self, sock: socket.socket, tokens: Tokens, allowed_origins: Collection[str], web: str = "",
                 tls: ssl.SSLContext | None = None, vencrypt: ssl.SSLContext | None = None,
                 limits: Limits | None = None) -> None:
        self.tokens, self.allowed_origins, self.web = tokens, frozenset(allowed_origins), web
        self.only_upgrade, self.is_tls, self.logger = not web, tls is not None, LOG
        self.ws_connection, self.vencrypt = False, vencrypt
        self.port: int = sock.getsockname()[1]
        self._listener = Listener(sock, self._handle, limits or Limits(), tls)

    def start(self) -> None:
        """Serve in the background."""
        self._listener.start()

    def stop(self) -> None:
        """Accept nothing new. Consoles that are open end with the process: there is nothing that would end by itself."""
        self._listener.stop()

    def _handle(self, client: Client) -> None:
        """All requests of one connection; a websocket is the last one."""
        requests, idle_seconds = Requests(client.sock, client.hold), HEAD_SECONDS
        while (request := requests.next(idle_seconds)) is not None:
            client.begin()
            handler = Handler(client, self, request)
            if not requests.end(request) or handler.close_connection:
                linger(client.sock)
                return
            idle_seconds = KEEPALIVE_SECONDS
            client.wait()
