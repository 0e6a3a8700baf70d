"""Consoles of a real guest: VNC in a browser by way of nova-lite-novncproxy, the serial console by websocket. Needs root."""
from __future__ import annotations

import contextlib
import datetime
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import core, models
from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost
from tests.support import rfb
from tests.support.browser import CHROMIUM, Browser
from tests.support.certificates import Authority
from tests.support.cloud import Services
from tests.support.engines import RabbitMQ
from tests.support.guest_files import open_to_others, process_user
from tests.support.process import BIN, Process, free_port, wait_for
from tests.support.websocket import Refused, WebSocket

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"), reason="needs root and QEMU")
BOOT_SECONDS = 240
VNC, SERIAL = ("vnc", "novnc"), ("serial", "serial")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    """Five services, libvirt and both proxies."""
    directory = tmp_path_factory.mktemp("consoles")
    ports = {name: free_port() for name in ("novncproxy", "serialproxy", "spicehtml5proxy")}
    rabbit = RabbitMQ(directory / "rabbitmq")
    with LibvirtHost(directory / "libvirt") as hypervisor:
        services = None
        try:
            rabbit.start()
            services = Services(
                directory / "cloud", rabbit.url, f"sqlite:///{directory}/nova.sqlite", compute__driver="libvirt",
                compute__shutdown_timeout=5,        # one is stopped while it boots: it hears no button
                libvirt__connection_uri=hypervisor.uri, console__proxy_listen="127.0.0.1", serial_console__enabled=True,
                serial_console__server_port=free_port(),
                spice__enabled=True, spice__html5proxy_port=ports["spicehtml5proxy"],
                spice__html5proxy_base_url=f"http://127.0.0.1:{ports['spicehtml5proxy']}/spice_auto.html",
                vnc__novncproxy_port=ports["novncproxy"], serial_console__serialproxy_port=ports["serialproxy"],
                vnc__novncproxy_base_url=f"http://127.0.0.1:{ports['novncproxy']}/vnc_lite.html",
                serial_console__base_url=f"ws://127.0.0.1:{ports['serialproxy']}/")
            for name in ports:
                services.processes[name] = Process(name, [str(BIN / f"nova-lite-{name}"), "--config-file",
                                                          str(services.config)], services.directory)
            services.hypervisor = hypervisor
            services.start()
            services.add_image(tiny_image())
            yield services
        finally:
            if services is not None:
                services.stop()
            rabbit.close()


@pytest.fixture(scope="module")
def client(cloud):
    return cloud.client(version="2.90")


@pytest.fixture(scope="module")
def guest(cloud, client):
    """A guest that waits for somebody to log in."""
    flavor = client.ok("POST", "/flavors", json={"flavor": {"name": "tiny", "ram": 128, "vcpus": 1, "disk": 1}})["flavor"]
    server = client.boot("guest", flavor["id"])["id"]
    client.wait(server, "ACTIVE", 120)
    wait_for("the login prompt", lambda: "login:" in console_log(client, server), BOOT_SECONDS, 1)
    return server


def console_log(client, server):
    return client.action(server, "os-getConsoleOutput", {})["output"]


def url_of(client, server, console):
    body = {"remote_console": {"protocol": console[0], "type": console[1]}}
    return client.ok("POST", f"/servers/{server}/remote-consoles", json=body)["remote_console"]["url"]


def websocket_url(url):
    """Where noVNC's page connects to."""
    parts = urlsplit(url)
    return f"ws://{parts.netloc}/{parse_qs(parts.query)['path'][0]}"


def screendump(cloud, server, path: pathlib.Path):
    """Width, height and RGB bytes of the guest's screen, as QEMU has it."""
    subprocess.run(["virsh", "-q", "-c", cloud.hypervisor.uri, "qemu-monitor-command", server, "--hmp",
                    f"screendump {path}"], check=True, capture_output=True)
    kind, size, depth, pixels = path.read_bytes().split(b"\n", 3)
    assert (kind, depth) == (b"P6", b"255")
    width, height = map(int, size.split())
    return width, height, pixels


def differing(one: bytes, other: bytes) -> float:
    """The share of pixels in which two pictures of one size differ."""
    return sum(one[i:i + 3] != other[i:i + 3] for i in range(0, len(one), 3)) / (len(one) / 3)


def log_in_and_write(page, client, guest):
    """Type a name, a password and a command, each when the guest is quiet. True when the command has been done.

    login throws away what comes too early; then all is typed again.
    """
    for line in ("root", "tiny", "dd if=/etc/hostname of=/dev/ttyS0 bs=1"):
        page.type(f"{line}\n")
        shown = b""
        while shown != (shown := page.canvas()[2]):
            time.sleep(3)
    # what the command wrote to the serial console stands on a line of its own, or behind the prompt there
    return console_log(client, guest).rstrip().endswith(("\ntiny", "login: tiny"))


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_screen_in_a_browser(cloud, client, guest, tmp_path):
    """What the page draws is what QEMU draws, and keys go the other way."""
    with Browser(tmp_path) as page:
        page.open(url_of(client, guest, VNC))

        def same():
            seen, drawn = page.canvas(), screendump(cloud, guest, tmp_path / "screen.ppm")
            # a cursor that blinks and a picture that is a moment older may differ a little
            return seen[:2] == drawn[:2] and seen[2].strip(b"\0") and differing(seen[2], drawn[2]) < 0.002 and seen
        before = wait_for("the guest's screen in the page", same, 60, 1)
        assert len({before[2][i:i + 3] for i in range(0, len(before[2]), 3)}) > 1
        page.screenshot(tmp_path / "login.png")
        page.evaluate("document.querySelector('canvas').focus()")
        wait_for("what was typed to be done", lambda: log_in_and_write(page, client, guest), 240, 1)
        assert differing(page.canvas()[2], before[2]) > 0.0005
        wait_for("the guest's screen in the page", same, 60, 1)
        page.screenshot(tmp_path / "after.png")


def test_rfb_by_websocket(cloud, client, guest):
    """As tempest looks at it."""
    url = url_of(client, guest, VNC)
    page = requests.get(url, timeout=30)
    assert page.status_code == 200
    assert "noVNC" in page.text
    with WebSocket(websocket_url(url), Origin=f"http://{urlsplit(url).netloc}") as console:
        assert "Server: WebSockify" in console.answer
        assert console.receive() == b"RFB 003.008\n"
        console.send(b"RFB 003.008\n")
        assert console.receive() == b"\x01\x01"      # one security type: none, as nobody but the proxy reaches it
    _, port = cloud_console(cloud, websocket_url(url))
    listening = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[3] for line in listening.splitlines()] == [f"127.0.0.1:{port}"]


def test_spice_by_websocket(client, guest):
    """The page is there, and who greets as SPICE's clients do is greeted."""
    url = url_of(client, guest, ("spice", "spice-html5"))
    assert "spice" in requests.get(url, timeout=30).text.lower()
    parts = urlsplit(url)
    with WebSocket(f"ws://{parts.netloc}/?{parts.query}") as console:
        main_channel = struct.pack("<IBBIII", 0, 1, 0, 0, 0, 18)
        console.send(struct.pack("<4sIII", b"REDQ", 2, 2, len(main_channel)) + main_channel)
        assert (console.receive() or b"").startswith(b"REDQ")


def test_the_serial_console(client, guest):
    with WebSocket(url_of(client, guest, SERIAL)) as console:
        console.send(b"\n")
        console.read_until(b"login: ")
        console.send(b"root\n")
        console.read_until(b"assword: ")
        console.send(b"tiny\n")
        console.read_until(b"# ")
        console.send(b"echo $((6 * 7))-answers\n")
        console.read_until(b"42-answers")
        console.send(b"exit\n")
        console.read_until(b"login: ")
    # somebody else finds it free, and all of it is in the log
    with WebSocket(url_of(client, guest, SERIAL)) as console:
        console.send(b"\n")
        console.read_until(b"login: ")
    assert "42-answers" in console_log(client, guest)


def is_refused(url):
    with WebSocket(url) as console:
        return console.receive() is None


def test_who_is_refused(cloud, client, guest):
    """No token, a wrong one, one of the other console, an old one, a page from elsewhere."""
    vnc, serial = websocket_url(url_of(client, guest, VNC)), url_of(client, guest, SERIAL)
    door = vnc.partition("?")[0]
    assert is_refused(door)
    assert is_refused(f"{door}?token=11111111-2222-3333-4444-555555555555")
    assert is_refused(f"{door}?{urlsplit(serial).query}")
    with pytest.raises(Refused, match="403"):
        WebSocket(vnc, Origin="http://elsewhere.example.org")
    assert not is_refused(vnc)
    database, table = core.Database(core_conf(cloud)), models.console_auth_tokens
    past = units.utcnow() - datetime.timedelta(seconds=1)
    database.write(lambda c: c.execute(sa.update(table).values(expires_at=past)))
    database.dispose()
    assert is_refused(vnc)
    assert is_refused(serial)


def core_conf(cloud):
    from nova_lite import conf

    return conf.load([], config_files=[str(cloud.config)])


def test_a_token_is_of_one_server_and_one_run(cloud, client, guest):
    """After a restart another guest may have the port."""
    other = client.boot("other")["id"]
    client.wait(other, "ACTIVE", 120)
    mine, theirs = (websocket_url(url_of(client, server, VNC)) for server in (guest, other))
    ports = {server: cloud_console(cloud, url) for server, url in ((guest, mine), (other, theirs))}
    assert ports[guest] != ports[other]
    client.action(other, "os-stop")
    client.wait(other, "SHUTOFF", 120)
    assert is_refused(theirs)
    assert not is_refused(mine)
    assert client.request("POST", f"/servers/{other}/remote-consoles", json={
        "remote_console": {"protocol": "vnc", "type": "novnc"}}).status_code == 409
    client.delete(other)
    client.wait_gone(other, 120)


def cloud_console(cloud, url):
    """Where the API says that a console is."""
    token = parse_qs(urlsplit(url).query)["token"][0]
    shown = cloud.client().ok("GET", f"/os-console-auth-tokens/{token}")["console"]
    return shown["host"], shown["port"]


def test_no_token_is_in_a_log(cloud, client, guest):
    url = url_of(client, guest, VNC)
    token = parse_qs(urlsplit(websocket_url(url)).query)["token"][0]
    requests.get(url, timeout=30)
    assert not is_refused(websocket_url(url))
    cloud_console(cloud, websocket_url(url))
    for process in cloud.processes.values():
        assert token not in process.log.read_text(), process.name


def test_who_runs_the_guest_where_the_way_is_closed_to_others(cloud, guest):
    """pytest's directories are: QEMU's own user could not open the disk."""
    [pid] = subprocess.run(["pgrep", "-f", f"qemu-system.*-uuid {guest}"], capture_output=True, text=True,
                           check=True).stdout.split()
    assert process_user(int(pid)) == "root"
    assert open_to_others(cloud.directory / "instances") == []


@pytest.fixture
def vnc_tls(cloud):
    """From here on guests that start show their screen by TLS only, and only to who has a certificate. The options of a proxy
    that has one."""
    pki, daemon = Authority(cloud.hypervisor.directory / "pki"), cloud.hypervisor.daemon
    pki.sign("server", "127.0.0.1")
    certificate, key = pki.sign("client", "proxy", client=True)
    daemon.qemu_options |= {"vnc_tls": 1, "vnc_tls_x509_verify": 1, "vnc_tls_x509_cert_dir": str(pki.directory)}
    daemon.stop(destroy_guests=False)
    daemon.start()
    return {"vnc__vencrypt_ca_certs": pki.file, "vnc__vencrypt_client_cert": certificate, "vnc__vencrypt_client_key": key}


def test_vnc_by_tls_between_proxy_and_host(cloud, client, guest, vnc_tls):
    """To the screen of a real guest in both ways of threads; what is not TLS is no console, neither from us nor from QEMU."""
    secured = client.boot("secured")["id"]
    client.wait(secured, "ACTIVE", 120)
    plain = url_of(client, guest, VNC)
    for mode in ("eventlet", "threading"):
        port = free_port()
        proxy = cloud.another("novncproxy", f"novncproxy-{mode}", vnc__novncproxy_port=port, **vnc_tls)
        proxy.env = {**proxy.env, "NOVA_LITE_CONCURRENCY": mode}
        proxy.start()
        try:
            wait_for("the proxy", lambda p=port: opens(p), 60)
            url = websocket_url(url_of(client, secured, VNC))
            with WebSocket(moved_to(url, port)) as console:
                width, height, name = rfb.framebuffer(console)
                assert min(width, height) >= 200
                assert "instance-" in name
            assert is_refused(moved_to(websocket_url(plain), port))
            [told] = [line for line in proxy.log.read_text().splitlines() if "is not reached" in line]
            assert "offers none (only the security types 1)" in told
        finally:
            proxy.kill(signal.SIGTERM)
    with WebSocket(url) as console:     # by the proxy that has no certificate
        assert rfb.security_types(console) == b"\x13"
    client.delete(secured)
    client.wait_gone(secured, 120)


def moved_to(url, port):
    """The same console at the proxy on another port."""
    return urlsplit(url)._replace(netloc=f"127.0.0.1:{port}").geturl()


def opens(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    return False
