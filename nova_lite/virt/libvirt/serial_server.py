"""The serial consoles of this host on one TCP port.

QEMU could listen itself. Then each guest would need its own port, a new one on each host that it moves to, which is open to
everybody who reaches it. So the console stays a pty, and a client names the console that it wants: ``CONNECT <path> HTTP/1.1``,
where the path is a secret of this process (``internal_access_path``). Open consoles end with this process; guests do not
notice.
"""
from __future__ import annotations

import contextlib
import os
import secrets
import socket
import termios
import threading
import tty
from collections.abc import Callable

from oslo_log import log

from nova_lite import exception
from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)
HEAD_SECONDS, HEAD_BYTES = 10, 1024
PIECE, MOST_WAITING = 4096, 65536
_LOOK_UP = 0.5
_END = b"\r\n\r\n"


class SerialServer:
    """``find_pty`` gives the pty of the guest with a uuid, or raises NovaLiteError. Raises ConfigError for a port that is
    taken."""

    def __init__(self, address: str, port: int, find_pty: Callable[[str], str]) -> None:
        try:
            self._socket = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError as error:
            raise exception.ConfigError(reason=f"[serial_console] server_port: cannot listen on {address}:{port}: "
                                               f"{error.strerror or error}") from None
        self._socket.settimeout(_LOOK_UP)
        self.port: int = self._socket.getsockname()[1]
        self._find_pty = find_pty
        self._paths: dict[str, str] = {}                        # uuid -> path
        self._sessions: dict[str, threading.Event] = {}         # uuid -> set when the session is to end
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="serial-consoles", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing new, end what is open."""
        self._stopping.set()
        self._thread.join()
        self._socket.close()

    def path_of(self, uuid: str) -> str:
        """The path that opens the console of a guest."""
        with self._lock:
            return self._paths.setdefault(uuid, secrets.token_urlsafe(24))

    def forget(self, uuid: str) -> None:
        """The guest is gone."""
        with self._lock:
            self._paths.pop(uuid, None)

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError as error:
                LOG.warning("a connection for a serial console was not accepted: %s", error)
                self._stopping.wait(_LOOK_UP)
                continue
            threading.Thread(target=self._handle, args=(connection,), name="serial-console", daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        try:
            with connection:
                uuid = self._asked_for(connection)
                if uuid:
                    self._connect(connection, uuid)
        except (OSError, exception.NovaLiteError) as error:     # either side may just go away
            LOG.debug("a serial console ended: %s", error)

    def _asked_for(self, connection: socket.socket) -> str:
        """The uuid of the guest that the other side may have; empty when it was refused."""
        connection.settimeout(HEAD_SECONDS)
        head = b""
        while not head.endswith(_END) and len(head) < HEAD_BYTES:
            more = connection.recv(1)
            if not more:
                return ""
            head += more
        words = head.decode("latin-1").split()
        with self._lock:
            uuid = next((u for u, path in self._paths.items() if words[:2] == ["CONNECT", path]), "")
        if not uuid:
            LOG.warning("a connection to the serial consoles was refused: it names none")
            connection.sendall(b"HTTP/1.1 404 Not Found" + _END)
        return uuid

    def _connect(self, connection: socket.socket, uuid: str) -> None:
        pty, end = self._opened(uuid), threading.Event()
        with self._lock:        # the later client gets it: the connection of the other may be dead
            if (before := self._sessions.get(uuid)) is not None:
                before.set()
            self._sessions[uuid] = end
        try:
            connection.sendall(b"HTTP/1.1 200 OK" + _END)
            connection.setblocking(False)
            _copy(connection, pty, lambda: end.is_set() or self._stopping.is_set())
        finally:
            os.close(pty)
            with self._lock:
                if self._sessions.get(uuid) is end:
                    del self._sessions[uuid]

    def _opened(self, uuid: str) -> int:
        """The guest's pty. Raises OSError, or NovaLiteError when it has none (any more)."""
        path = self._find_pty(uuid)
        pty = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            if self._find_pty(uuid) != path:        # that guest had ended, and the number is another's by now
                raise FileNotFoundError(path)
            tty.setraw(pty)
        except BaseException as error:
            os.close(pty)
            if isinstance(error, termios.error):
                raise OSError(*error.args) from error
            raise
        return pty


def _copy(connection: socket.socket, pty: int, is_over: Callable[[], bool]) -> None:
    """Both ways, until one side ends (OSError) or ``is_over``."""
    to_guest, to_user = b"", b""
    number = connection.fileno()
    while not is_over():
        readers = [number] if len(to_guest) < MOST_WAITING else []
        readers += [pty] if len(to_user) < MOST_WAITING else []
        writers = ([pty] if to_guest else []) + ([number] if to_user else [])
        readable, writable = concurrency.ready(readers, writers, _LOOK_UP)
        with contextlib.suppress(BlockingIOError):
            if number in readable:
                to_guest += _more(connection.recv(PIECE))
        with contextlib.suppress(BlockingIOError):
            if pty in readable:
                to_user += _more(os.read(pty, PIECE))
        with contextlib.suppress(BlockingIOError):
            if pty in writable:
                to_guest = to_guest[os.write(pty, to_guest):]
        with contextlib.suppress(BlockingIOError):
            if number in writable:
                to_user = to_user[connection.send(to_user):]


def _more(data: bytes) -> bytes:
    """OSError for the end, which a pty without a guest shows in both ways."""
    if not data:
        raise ConnectionResetError("the other side has ended")
    return data
