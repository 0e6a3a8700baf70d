"""What no client should send: one answer that says so, at most one line of log, no traceback. On a real cloud, by raw bytes."""
from __future__ import annotations

import json
import logging
import re
import socket
import time
from urllib.parse import quote

import pytest
import requests

from nova_lite import json_in
from nova_lite.console.proxy import Proxy
from nova_lite.runtime import log as log_module
from nova_lite.runtime.http import sockets
from tests.support.cloud import Standalone

DEEP = b"[" * 900 + b"]" * 900
DOORS = {"compute": ("POST", "/v2.1/servers"), "flavors": ("POST", "/v2.1/flavors"),
         "identity": ("POST", "/identity/v3/auth/tokens"),
         "image": ("POST", "/image/v2/images"), "network": ("POST", "/network/v2.0/networks"),
         "group": ("POST", "/network/v2.0/security-groups"), "volume": ("POST", "/volume/v3/PROJECT/volumes")}


class Raw:
    """A cloud, asked by bytes."""

    def __init__(self, cloud: Standalone) -> None:
        self.cloud = cloud
        self.sent = 0
        self.log = cloud.directory / "state" / "nova-lite.log"
        self.token = cloud.token()
        self.project = requests.get(f"{cloud.url}/identity/v3/auth/projects", timeout=10, headers={
            "X-Auth-Token": self.token}).json()["projects"][0]["id"]

    def send(self, method: str, target: str, body: bytes = b"", length: int | None = None, *headers: str) -> tuple[int, str]:
        """Status and body of the answer; with a ``length`` that never comes, the client leaves (status 0)."""
        self.sent += 1
        aborts, target = length is not None, target.replace("PROJECT", self.project)
        lines = [f"{method} {target} HTTP/1.1", "Host: cloud", f"X-Auth-Token: {self.token}", "Connection: close", *headers,
                 "Content-Type: application/json"]
        if "Transfer-Encoding: chunked" not in headers:
            lines.append(f"Content-Length: {length or len(body)}")
        with socket.create_connection(("127.0.0.1", self.cloud.port), 20) as sock:
            sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            if aborts:
                sock.shutdown(socket.SHUT_WR)
            data = b""
            while more := sock.recv(65536):
                data += more
        head, _, text = data.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, text.decode()

    def lines(self, since: int) -> list[str]:
        """What the cloud has logged."""
        text = self.log.read_bytes()[since:].decode()
        return [line for line in text.split("\n") if line]


@pytest.fixture(scope="module", params=["eventlet", "threading"])
def raw(request, tmp_path_factory):
    cloud = Standalone(tmp_path_factory.mktemp("cloud"), {"NOVA_LITE_CONCURRENCY": request.param}, "--virt-driver", "fake")
    try:
        yield Raw(cloud.start())
    finally:
        if cloud.process.popen is not None:
            cloud.stop()


@pytest.fixture(autouse=True)
def clean_log(request):
    """At the end, when the last line has come, there are no more lines than requests."""
    if "raw" not in request.fixturenames:
        yield
        return
    raw = request.getfixturevalue("raw")
    since, before = raw.log.stat().st_size, raw.sent
    yield
    time.sleep(0.3)
    lines = raw.lines(since)
    assert len(lines) <= raw.sent - before, lines
    assert not [line for line in lines if "Traceback" in line or not line.isprintable()]


def check(raw: Raw, *arguments, expected=(400,)) -> str:
    """The answer has one of the statuses, and there is at most one clean line of log."""
    since = raw.log.stat().st_size
    status, text = raw.send(*arguments)
    assert status in expected, (arguments[:2], status, text[:300])
    lines = raw.lines(since)
    assert len(lines) <= 1, (arguments[:2], lines)
    assert all(line.isprintable() and "Traceback" not in line for line in lines), lines
    return lines[0] if lines else ""


@pytest.mark.parametrize("door", DOORS)
def test_bodies_that_nobody_should_send(raw, door):
    method, target = DOORS[door]
    key = {"compute": b"server", "flavors": b"flavor", "identity": b"auth", "image": b"name", "network": b"network",
           "group": b"security_group", "volume": b"volume"}[door]
    for body in (DEEP, b'{"%s":%s}' % (key, DEEP), b'{"a":' * 20000, b'{"%s":{"name":%s}}' % (key, b"9" * 10000),
                 b'{"%s":{"name":%s, "size":%s}}' % (key, b"9" * 4000, b"9" * 4000), b'{"%s":{"name":"\\ud800"}}' % key,
                 b'{"%s":{"name":"\\u0000"}}' % key, b'{"%s":{"name":NaN}}' % key, b'{"%s":{"size":1e999}}' % key,
                 b"\xff\xfe{}", b'{"%s":{"name":"%s"}}' % (key, b"x" * 100000), b'"%s"' % (b"x" * 120000),
                 b'{"%s":{"name":"\\u001b[31m\\n\\u202e"}}' % key,
                 b'{"name": ["\\ud800"], "x": {"\\ud800": "\\ud800"}}', b"null", b'"', b""):
        check(raw, method, target, body, expected=(413,) if len(body) > 114688 else
              {"identity": (400, 401), "image": (400, 201), "group": (400, 201), "network": (400, 201)}.get(door, (400,)))


@pytest.mark.parametrize("door", DOORS)
def test_bodies_that_end_too_early(raw, door):
    method, target = DOORS[door]
    check(raw, method, target, b'{"a"', 100, expected=(400, 0))
    check(raw, method, target, b'{"a":1}', 100, expected=(400, 0))
    check(raw, method, target, b'50\r\n{"a"', 0, "Transfer-Encoding: chunked", expected=(400, 0))


def test_an_image_whose_data_end_too_early_is_still_to_be_filled(raw):
    status, text = raw.send("POST", "/image/v2/images", b'{"name": "x", "disk_format": "raw", "container_format": "bare"}')
    assert status == 201, text
    path = f"/image/v2/images/{json.loads(text)['id']}"
    check(raw, "PUT", f"{path}/file", b"50\r\nsome data", 0, "Transfer-Encoding: chunked", expected=(400, 0))
    check(raw, "PATCH", path, b"9" * 5000)
    check(raw, "PUT", f"{path}/file", b"some data", 100, expected=(400, 0))
    assert json.loads(raw.send("GET", path)[1])["status"] == "queued"
    check(raw, "PATCH", path, DEEP)
    check(raw, "PATCH", path, b'{"op": 1}')
    assert raw.send("PUT", f"{path}/file", b"9\r\nsome data\r\n0\r\n\r\n", None, "Transfer-Encoding: chunked")[0] == 204
    assert json.loads(raw.send("GET", path)[1])["size"] == 9


@pytest.mark.parametrize("prefix", ["/v2.1/servers", "/v2.1", "", "/image/v2/images", "/identity/v3/users",
                                    "/network/v2.0/networks", "/volume/v3/PROJECT/volumes"])
def test_paths_that_nobody_should_ask_for(raw, prefix):
    words = ["%00", "%ff", "%0aforged", "%1b[31m", "%e2%80%ae", "%ed%a0%80", "..%2f..%2fetc", "x" * 2000, "%252e",
             "a" * 300 + "%0d"]
    for target in [f"{prefix}/{word}" for word in words] + [
            f"{prefix or '/'}?name={word}&limit={'9' * 5000}" for word in words]:
        line = check(raw, "GET", target, expected=(200, 300, 400, 404))
        assert "\x1b" not in line
        assert target.count("%0a") == 0 or "\\nforged" in line or "%0a" in line or not line


def test_methods_and_agents_with_control_characters(raw):
    for method in ("FOO\x1b[31m", "GET\x7f", "\x9b31m"):
        for target in ("/v2.1/servers", "/", "/identity/v3", "/image/v2/images"):
            line = check(raw, method, target, expected=(200, 400, 401, 404, 405, 501))
            assert not line or repr(method)[1:-1] in line
    for header in ("User-Agent: \x1b[2J\x9b", "X-Openstack-Request-Id: \x1b]0;x", "X-Forwarded-For: \x1b", "Accept: \x9b",
                   "OpenStack-API-Version: compute \x1b9", "OpenStack-API-Version: compute " + "9" * 5000):
        check(raw, "GET", "/v2.1/servers", b"", None, header, expected=(200, 400, 406))
    assert len(check(raw, "POST", "/v2.1/servers", b"{}", None, "Content-Type: \x1b[31m", expected=(400, 415))) < 500


def test_every_message_of_a_log_is_one_line():
    record = log_module.Record("x", logging.INFO, "f", 1, "%s came\nfor %s", ("\x1b[31mjoe\u202e", "tea\x00 \u00e9"), None)
    assert record.getMessage() == "\\x1b[31mjoe\\u202e came\\nfor tea\\x00 \u00e9"


@pytest.mark.parametrize("path", ["/page.html/%00", "/%00", "/%ed%a0%80", "/%ed%a0%80/%00?token=x", "/" + "x" * 3000, "/%ff%0a",
                                  "/" + quote("\x1b[31m")])
def test_a_console_page_that_no_file_can_be(path, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG, "nova_lite.console")
    monkeypatch.setattr(logging, "_logRecordFactory", log_module.Record)
    (tmp_path / "page.html").write_text("noVNC")
    proxy = Proxy(sockets.bind("127.0.0.1", 0), None, (), web=str(tmp_path))  # type: ignore[arg-type]
    proxy.start()
    try:
        with socket.create_connection(("127.0.0.1", proxy.port), 10) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert re.match(rb"HTTP/1.1 404 ", sock.recv(1000))
            while sock.recv(1000):
                pass
    finally:
        proxy.stop()
    ours = [record for record in caplog.records if record.name.startswith("nova_lite")]     # not of other tests' brokers
    assert all(record.levelno < logging.INFO and record.exc_info is None for record in ours)
    assert all(record.getMessage().isprintable() for record in ours)


def test_numbers_and_texts_that_json_may_not_hold():
    for text in (DEEP, b"9" * 5000, b"NaN", b"[1e400]", b"\xff"):
        with pytest.raises(ValueError, match="."):
            json_in.loads(text)
    for value in ("\ud800", {"\ud800": 1}, ["\x00"], {"\x00": 1}):
        with pytest.raises(ValueError, match="."):
            json_in.check_texts(value)
