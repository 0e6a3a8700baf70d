"""The server of a console proxy: a thread (green or native) for each connection, on a socket that is bound already."""
from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Collection

from oslo_log import log

from nova_lite.console.handler import REQUEST_SECONDS, Handler
from nova_lite.console.tokens import Tokens

LOG = log.getLogger(__name__)
_LOOK_UP = 0.5      # seconds between two looks whether it shall stop


class Proxy:
    """One door, as ``wsgi_server.Server`` is another. ``web``: the directory of its pages; empty: it has none. ``tls`` is for
    browsers; ``vencrypt``: its consoles are VNC, and reached by TLS only."""

    # what websockify's handler asks its server for
    heartbeat = 30              # seconds between two pings, so that firewalls keep the connection
    file_only = True            # no lists of directories
    handler_id = 0
    verbose = traffic = daemon = run_once = record = web_auth = host_token = False

    def __init__(self, sock: socket.socket, tokens: Tokens, allowed_origins: Collection[str], web: str = "",
                 tls: ssl.SSLContext | None = None, vencrypt: ssl.SSLContext | None = None) -> None:
        self.tokens, self.allowed_origins, self.web = tokens, frozenset(allowed_origins), web
        self.only_upgrade, self.is_tls, self.logger = not web, tls is not None, LOG
        self.ws_connection, self.vencrypt = False, vencrypt
        self.port: int = sock.getsockname()[1]
        self._socket, self._tls = sock, tls
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"consoles-{self.port}", daemon=True)

    def start(self) -> None:
        """Serve in the background."""
        self._socket.settimeout(_LOOK_UP)
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing new. Consoles that are open end with the process: there is nothing that would end by itself."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError as error:        # out of files, or a client that was gone at once
                LOG.warning("a connection was not accepted: %s", error)
                self._stopping.wait(_LOOK_UP)
                continue
            threading.Thread(target=self._handle, args=(connection, address), name=f"console-{address[0]}",
                             daemon=True).start()

    def _handle(self, connection: socket.socket, address: tuple[str, int]) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            try:
                connection.settimeout(REQUEST_SECONDS)
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                    stack.callback(connection.close)
                Handler(connection, address, self)
            except (OSError, EOFError) as error:        # handshakes that fail, clients that vanish
                LOG.debug("the connection of %s ended: %s", address[0], error)
            except Exception:
                LOG.exception("the connection of %s ended", address[0])
