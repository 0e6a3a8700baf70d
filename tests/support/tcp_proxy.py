"""Before a TCP server, to be as silent as a machine that lost its power: connections stay open, no byte comes through."""
from __future__ import annotations

import contextlib
import socket
import threading


class TcpProxy:
    """Passes bytes to 127.0.0.1:``upstream``; listens on ``port``."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._silent: set[socket.socket] = set()
        self._open: list[socket.socket] = []
        self._passes = threading.Event()
        self._passes.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """What is connected now hears nothing any more; who connects later is served."""
        self._silent.update(self._open)

    def hold(self) -> None:
        """Bytes wait, as in a network that loses its packets."""
        self._passes.clear()

    def let_go(self) -> None:
        """Bytes go on."""
        self._passes.set()

    def close(self) -> None:
        """End all connections."""
        self._passes.set()
        for one in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):          # closed
            while True:
                client = self._listener.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", self._upstream))
                except ConnectionRefusedError:      # the server is away
                    client.close()
                    continue
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                if source not in self._silent:
                    target.sendall(data)
            if source not in self._silent:
                target.shutdown(socket.SHUT_WR)
