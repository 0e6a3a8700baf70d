"""Accepts connections, a thread (green or native) for each, and limits how many there are and what they hold.

A connection waits until a request has come whole, and again between two requests. When a limit is reached, a new connection
takes the place of the connection that has waited longest: of the same address for the limit of an address, of the address with
most connections for the limit of all. When all unfinished requests hold too many bytes, the address that holds most loses the
largest. So a client that opens thousands of silent connections only closes its own.
"""
from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from oslo_log import log

from nova_lite import exception
from nova_lite.runtime.http.sockets import SEND_SECONDS, linger, network_of, refusal, send_all, tell_failed_tls

LOG = log.getLogger(__name__)
_LOOK_SECONDS = 0.25        # between two checks whether the listener has to stop
_OTHER_FILES = 512          # files of a process besides its clients: database, broker, logs
HANDSHAKE_SECONDS = 10.0


@dataclass(frozen=True)
class Limits:
    """The most connections of one process, in total and from one address (IPv6: from one /64), and the most bytes that they may
    hold."""

    connections: int = 1000
    per_address: int = 250
    held_bytes: int = 16 << 20      # of requests that have not come whole


class Client:
    """One connection; its own thread alone uses ``sock``."""

    def __init__(self, listener: Listener, sock: socket.socket, address: str, port: int) -> None:
        self.sock, self.address, self.port = sock, address, port
        self.network, self.held = network_of(address), 0
        self._listener = listener

    def hold(self, size: int) -> None:
        """So many bytes are kept of a request that has not come whole. This may close the connection, or another."""
        self._listener.hold(self, size)

    def begin(self) -> None:
        """A request has come whole: nothing closes the connection until :meth:`wait` is called."""
        self._listener.move(self, waits=False)

    def wait(self) -> None:
        """The next request may come, or not."""
        self._listener.move(self, waits=True)


class Listener:
    """Calls ``serve`` for each connection, in its thread; closes the connection after that. An error of ours that ``serve``
    raises is the client's last answer."""

    def __init__(self, sock: socket.socket, serve: Callable[[Client], None], limits: Limits,
                 tls: ssl.SSLContext | None = None) -> None:
        self.port: int = sock.getsockname()[1]
        self.stopping = threading.Event()
        self._socket, self._serve, self._limits, self._tls = sock, serve, limits, tls
        self._changed = threading.Condition(threading.Lock())
        # per network: its clients, with the time since which each waits (None: it does not), longest wait first
        self._clients: dict[str, dict[Client, float | None]] = {}
        self._count = self._held = 0
        self._thread = threading.Thread(target=self._accept, name=f"http-{self.port}", daemon=True)

    def start(self) -> None:
        """Accept in the background."""
        _allow_files(self._limits.connections + _OTHER_FILES)
        self._socket.settimeout(_LOOK_SECONDS)
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing new, close the connections that wait."""
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._changed:
            for client in [one for clients in self._clients.values() for one in clients if clients[one] is not None]:
                self._evict(client)

    def finish(self) -> None:
        """After :meth:`stop`: wait for the requests in flight."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count)

    def move(self, client: Client, waits: bool) -> None:
        """Put a client behind all others of its address, as waiting or not."""
        with self._changed:
            clients = self._clients.get(client.network, {})
            if client in clients:       # not when it was evicted
                del clients[client]
                clients[client] = time.monotonic() if waits else None
                self._set_held(client, 0)       # at work: such connections are not closed for their bytes
                if waits and self.stopping.is_set():
                    self._evict(client)

    def hold(self, client: Client, size: int) -> None:
        """See Client."""
        with self._changed:
            if client in self._clients.get(client.network, {}):
                self._set_held(client, size)
                while self._held > self._limits.held_bytes and self._evict_largest():
                    pass

    def _set_held(self, client: Client, size: int) -> None:
        self._held += size - client.held
        client.held = size

    def _evict_largest(self) -> bool:
        """Close the one that holds most, of those that wait and are of the address that holds most; False: none does."""
        waiting = [[client for client, since in clients.items() if since is not None and client.held]
                   for clients in self._clients.values()]
        most = max(waiting, key=lambda clients: sum(client.held for client in clients), default=[])
        if not most:
            return False
        self._evict(max(most, key=lambda client: client.held))
        return True

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, address = self._socket.accept()
            except TimeoutError:
                pass
            except OSError as error:        # no file is left, or the client is gone already
                LOG.warning("a connection was not accepted: %s", error)
                self._close_one_of_most()
                self.stopping.wait(_LOOK_SECONDS)
            else:
                self._admit(sock, address[0], address[1])

    def _admit(self, sock: socket.socket, address: str, port: int) -> None:
        client = Client(self, sock, address, port)
        with self._changed:
            clients = self._clients.setdefault(client.network, {})
            full = len(clients) >= self._limits.per_address
            if (full and not self._evict_of(clients)) or (
                    not full and self._count >= self._limits.connections and not self._evict_of(self._most())):
                sock.close()
                LOG.info("a connection of %s was refused: all that are allowed are at work", address)
                if not clients:
                    del self._clients[client.network]
                return
            # an eviction may have removed the network
            self._clients.setdefault(client.network, clients)[client] = time.monotonic()
            self._count += 1
        threading.Thread(target=self._run, args=(client,), name=f"http-{address}", daemon=True).start()

    def _run(self, client: Client) -> None:
        try:
            # outside of the error handler, which would keep the bytes of the request in memory
            answer = self._serve_or_refuse(client)
            if answer:
                send_all(client.sock, answer, SEND_SECONDS)
                linger(client.sock)
        except ssl.SSLError as error:       # with TLS 1.3 a client says after the handshake that it refuses the certificate
            tell_failed_tls(client.address, error)
        except OSError as error:
            LOG.debug("the connection of %s ended: %s", client.address, error)
        except Exception:
            LOG.exception("the connection of %s ended", client.address)
        finally:
            with self._changed:
                self._forget(client)
                # under the lock: else another thread might shut down a reused file number
                client.sock.close()

    def _serve_or_refuse(self, client: Client) -> bytes:
        """The last answer, if ``serve`` has not given it."""
        try:
            if self._tls is not None:
                self._secure(client, self._tls)
            self._serve(client)
        except exception.NovaLiteError as error:
            LOG.info("a request of %s was refused: %s", client.address, error)
            return refusal(error)
        return b""

    @staticmethod
    def _secure(client: Client, tls: ssl.SSLContext) -> None:
        client.sock.settimeout(HANDSHAKE_SECONDS)
        client.sock = tls.wrap_socket(client.sock, server_side=True, do_handshake_on_connect=False)
        client.sock.do_handshake()

    def _most(self) -> dict[Client, float | None]:
        return max(self._clients.values(), key=len)

    def _close_one_of_most(self) -> None:
        with self._changed:
            if self._count:
                self._evict_of(self._most())

    def _evict_of(self, clients: dict[Client, float | None]) -> bool:
        """Close the one that waits longest; False when none waits."""
        for client, since in clients.items():
            if since is not None:
                self._evict(client)
                return True
        return False

    def _evict(self, client: Client) -> None:
        self._forget(client)
        with contextlib.suppress(OSError):      # the client has closed it
            # its thread may be in a TLS call on the socket, whose own shutdown is not for other threads
            copy = socket.socket(fileno=os.dup(client.sock.fileno()))
            try:
                copy.shutdown(socket.SHUT_RDWR)
            finally:
                copy.close()

    def _forget(self, client: Client) -> None:
        clients = self._clients.get(client.network, {})
        if client in clients:
            del clients[client]
            self._count -= 1
            self._set_held(client, 0)
            if not clients:
                del self._clients[client.network]
            self._changed.notify_all()


def _allow_files(needed: int) -> None:
    """Raise the process's soft limit of open files, when it is below ``needed``, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
