"""Guests of a bridge without a hypervisor: namespaces that are plugged into it, and programs that talk between them."""
from __future__ import annotations

import contextlib
import http.server
import ipaddress
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import uuid

from nova_lite.network.host import NetworkHost

_LEASE_SCRIPT = """#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr flush dev $interface
ip addr add $ip/$mask dev $interface
ip route add ${router} dev $interface
ip route add 169.254.169.254 via ${router} dev $interface
env > $LEASE
"""


def run(*command, check=True, **options):
    """A command, which must succeed."""
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=60, **options)


class Client:
    """A namespace whose eth0 is plugged into the bridge: a guest without a hypervisor."""

    def __init__(self, directory: pathlib.Path, netns: str, bridge: str, vif) -> None:
        self.directory, self.name, self.vif = directory, "nlc" + uuid.uuid4().hex[:8], vif
        directory.mkdir(exist_ok=True)
        self.script = directory / "script"
        self.script.write_text(_LEASE_SCRIPT)
        self.script.chmod(0o755)
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        at = NetworkHost(netns)
        at.ip("link", "add", vif.devname, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        at.ip("link", "set", vif.devname, "master", bridge, "up")
        run("ip", "-n", self.name, "link", "set", "eth0", "address", vif.mac_address, "up")

    def dhcp(self) -> dict[str, str]:
        """Ask for a lease; what it holds, as udhcpc gives it to its script. Empty without an answer."""
        lease = self.directory / "lease"
        lease.unlink(missing_ok=True)
        self.run("busybox", "udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "4", "-T", "1", "-s", str(self.script), "-O", "mtu",
                 "-O", "staticroutes", check=False, env={**os.environ, "LEASE": str(lease)})
        return dict(line.split("=", 1) for line in lease.read_text().splitlines() if "=" in line) if lease.exists() else {}

    def run(self, *command, **options):
        return run("ip", "netns", "exec", self.name, *command, **options)

    def dress(self) -> Client:
        """With its address and a way to the router, as by DHCP."""
        fixed = self.vif.fixed_ips[0]
        self.run("ip", "address", "add", f"{fixed.address}/{fixed.cidr.partition('/')[2]}", "dev", "eth0")
        self.run("ip", "route", "add", "default", "via", fixed.gateway)
        return self

    def pings(self, address: str) -> bool:
        """Whether the address answers, within a second."""
        return self.run("busybox", "ping", "-c", "1", "-W", "1", address, check=False).returncode == 0

    def close(self) -> None:
        run("ip", "netns", "delete", self.name)


class Metadata(http.server.ThreadingHTTPServer):
    """Answers with the address that the request seems to come from."""

    def __init__(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(f"{self.client_address[0]} asked {self.path}".encode())

            def log_message(self, *_args):
                pass
        super().__init__(("0.0.0.0", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def free_range() -> str:
    """A /29 that nobody else has: what a run that was broken off has left does not stand in the way of the next."""
    routes = [ipaddress.ip_network(one["dst"]) for one in json.loads(run("ip", "-4", "-j", "route").stdout)
              if one["dst"] != "default"]
    while True:
        found = ipaddress.ip_network(f"10.{random.randrange(256)}.{random.randrange(256)}.{8 * random.randrange(32)}/29")
        if not any(found.overlaps(route) for route in routes):
            return str(found)



# a client (address, port, timeout) that says what it hears, once more for each line of its input; and its server (port)
TALK = """
import socket, sys
line = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
print(line.recv(100).decode(), flush=True)
for _ in sys.stdin:
    line.send(b"?")
    try:
        print(line.recv(100).decode(), flush=True)
    except OSError:
        print("silence", flush=True)
"""
LISTEN = """
import socket, sys
door = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
while True:
    line, peer = door.accept()
    line.send(b"hello")
    while line.recv(10):
        line.send(b"still here")
"""


@contextlib.contextmanager
def program(netns: str, code: str, *arguments: object):
    """Run Python code in a namespace, its input and output piped, until the end of the block."""
    running = subprocess.Popen(["ip", "netns", "exec", netns, sys.executable, "-c", code, *map(str, arguments)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def reaches(netns: str, address: str, port: int, seconds: float) -> bool:
    """Whether a server of ``LISTEN`` can be talked to."""
    with program(netns, TALK, address, port, seconds) as talk:
        return talk.stdout.readline() == "hello\n"
