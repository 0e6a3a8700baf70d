"""One connection of a browser to a console proxy: pages, and the websocket that becomes a connection to a console."""
from __future__ import annotations

import io
import re
import socket
import ssl
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from oslo_log import log
from websockify import websocketproxy

from nova_lite.console import vencrypt
from nova_lite.objects.console import ConsoleAuthToken
from nova_lite.runtime.http.incoming import Incoming
from nova_lite.runtime.http.listener import Client
from nova_lite.runtime.http.sockets import SEND_RATE, SEND_SECONDS, send_all

LOG = log.getLogger(__name__)
_REASON = 200               # characters: websockify quotes what it does not understand
CONNECT_SECONDS = 10
HEAD_BYTES = 1024
_TOKEN = re.compile(r"(token(?:=|%3[dD]))[^&\s'\";]+")


class _Answer(io.RawIOBase):
    """Writes to a client that has to read at the least rate."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def writable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def write(self, data: Any) -> int:
        """See io.RawIOBase. Raises OSError."""
        size = memoryview(data).nbytes
        send_all(self._sock, data, SEND_SECONDS + size / SEND_RATE)
        return size


class Handler(websocketproxy.ProxyRequestHandler):
    """Answers one request. ``server`` is a :class:`nova_lite.console.proxy.Proxy`."""

    def __init__(self, client: Client, server: Any, request: Incoming) -> None:
        self._head = request.head
        super().__init__(client.sock, (client.address, client.port), server)

    def setup(self) -> None:
        """Read the head, which has been checked, in place of the connection."""
        super().setup()
        lines = [b"%s %s HTTP/%s" % (self._head.method, self._head.target, self._head.http_version),
                 *(b"%s: %s" % (name, value) for name, value in self._head.headers.raw_items()), b"", b""]
        self.rfile, self.wfile = io.BytesIO(b"\r\n".join(lines)), _Answer(self.connection)

    def handle(self) -> None:
        """One request; the proxy reads the next one."""
        self.handle_one_request()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Without more of the request than is useful."""
        super().send_error(code, message and message[:_REASON], explain)

    # the name of websockify, which Nova's clients expect
    server_version = "WebSockify"
    server: Any

    def handle_upgrade(self) -> None:
        """A websocket, if the page that asks for it is our own or an allowed one."""
        problem = refuse_origin(self.headers.get("Origin"), self.headers.get("Host", ""), self.server.allowed_origins,
                                self.server.is_tls)
        if problem:
            LOG.warning("%s was refused: %s", self.client_address[0], problem)
            self.send_error(403, problem)
            self.close_connection = True
            return
        super().handle_upgrade()

    def validate_connection(self) -> None:
        """Done in :meth:`new_websocket_client`: a client with a wrong token sees the end of the websocket, as with the proxies
        of Nova."""

    def auth_connection(self) -> None:
        """The token is all that is asked for."""

    def new_websocket_client(self) -> None:
        """Let it through, or hang up."""
        found = self.server.tokens.resolve(token_of(self.path, self.headers.get("Cookie", "")))
        if found is None:
            LOG.warning("%s was refused: its token is unknown, has expired, or is of a guest that has stopped or moved",
                        self.client_address[0])
            return
        extra = {"instance_uuid": found.instance_uuid}
        target = _connect(found, self.server.vencrypt)
        if target is None:
            return
        if self.server.vencrypt is not None and not self._welcome(target, extra):
            target.close()
            return
        LOG.info("%s has opened the %s console", self.client_address[0], found.console_type, extra=extra)
        self.request.settimeout(None)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.do_proxy(target)
        except OSError as error:        # either end may just go away
            LOG.debug("the console of %s ended: %s", self.client_address[0], error, extra=extra)
        finally:
            target.close()
            LOG.info("%s has left the %s console", self.client_address[0], found.console_type, extra=extra)

    def _welcome(self, target: socket.socket, extra: dict[str, str]) -> bool:
        """The browser's part of a handshake of which the host's is done. False when it fails."""
        try:
            target.sendall(vencrypt.welcome(self.send_frames, self.recv_frames))
        except OSError as error:
            LOG.warning("%s has got no console: %s", self.client_address[0], error, extra=extra)
            return False
        return True

    def send_head(self) -> Any:
        """The answer of a page. A path that can name no file (NUL, half of a surrogate pair) names none."""
        try:
            return super().send_head()
        except ValueError:
            self.send_error(404, "File not found")
            return None

    def translate_path(self, path: str) -> str:
        """Pages are those of one directory."""
        self.directory = self.server.web
        return super().translate_path(path)

    def log_message(self, format: str, *args: Any) -> None:
        """Without tokens, at level debug."""
        LOG.debug("%s: %s", self.client_address[0], without_tokens(format % args))


def _connect(found: ConsoleAuthToken, tls: ssl.SSLContext | None) -> socket.socket | None:
    try:
        target = socket.create_connection((found.host, found.port), CONNECT_SECONDS)
        target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if found.internal_access_path:
            _introduce(target, found.internal_access_path)
        if tls is not None:
            target = vencrypt.secured(target, tls, found.host)
    except OSError as error:
        LOG.error("the console at %s:%s is not reached: %s", found.host, found.port, error,
                  extra={"instance_uuid": found.instance_uuid})
        return None
    target.settimeout(None)
    return target


def _introduce(target: socket.socket, path: str) -> None:
    """Name the console, where one port has many; ConnectionRefusedError when it is not available."""
    target.sendall(f"CONNECT {path} HTTP/1.1\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < HEAD_BYTES:
        more = target.recv(1)
        if not more:
            break
        head += more
    if b" 200" not in head.partition(b"\r\n")[0]:
        target.close()
        raise ConnectionRefusedError(f"the host answers {head[:100]!r}")


def token_of(path: str, cookie: str = "") -> str:
    """The token of a request: in its query, else in the cookie that older pages of noVNC set; empty when there is none."""
    found = parse_qs(urlsplit(path).query).get("token", [""])[-1]
    if found or not cookie:
        return found
    try:
        cookies = SimpleCookie(cookie)
    except CookieError:
        return ""
    return cookies["token"].value if "token" in cookies else ""


def refuse_origin(origin: str | None, host: str, allowed: Collection[str], is_tls: bool) -> str:
    """Why the page at ``origin`` may not open a console here; empty: it may. Else any page that a user visits could use the
    cookies of the browser. Clients that are not browsers send no origin."""
    if origin is None:
        return ""
    try:
        page, here = urlsplit(origin), urlsplit(f"//{host}").hostname
    except ValueError:      # half an IPv6 address
        return "the Origin or the Host header is not valid"
    if not page.hostname or not page.scheme:
        return "the Origin header is not valid"
    if page.hostname in allowed:
        return ""
    if page.hostname != here:
        return "the Origin header does not match this host"
    if is_tls and page.scheme != "https":
        return "the Origin header is not that of a page that came by https"
    return ""


def without_tokens(text: str) -> str:
    """For the log."""
    return _TOKEN.sub(r"\1***", unquote(text) if "%3" in text else text)
