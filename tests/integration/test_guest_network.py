"""A real guest under QEMU on a real bridge: DHCP, config drive, metadata service, ssh, addresses, power button. Needs root."""
from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import uuid

import pytest
import requests

from nova_lite import conf as conf_module
from nova_lite.api.metadata.handler import MetadataHandler
from nova_lite.context import RequestContext
from nova_lite.db import migration, networks
from nova_lite.db.core import Database
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.embedded.network.bridge import BridgeNetwork
from nova_lite.network.host import NetworkHost
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.runtime.http import sockets
from nova_lite.runtime.http.server import WSGIServer
from nova_lite.virt import guest_metadata
from tests.guest import tiny_image
from tests.support.bridge_guests import free_range
from tests.support.process import wait_for
from tests.support.servers import add_server

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"), reason="needs root and QEMU")
CONTEXT = RequestContext(user_id="u", project_id="p", overwrite=False)
BOOT_SECONDS = 240
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
       "LogLevel=ERROR", "-o", "ConnectTimeout=5")


class Conductor:
    """Knows one server, by the address of its nic."""

    def __init__(self) -> None:
        self.instance: Instance | None = None

    def instance_by_address(self, context, address, network_id=None):
        known = self.instance and [f.address for v in self.instance.network_info for f in v.fixed_ips]
        return self.instance.to_primitive() if known and address in known else None

    def instance_metadata(self, context, instance_uuid):
        return None


@pytest.fixture
def cloud(tmp_path):
    """(network host, driver, conductor, database, URL) with the metadata service outside the namespace of the bridge."""
    conductor, netns = Conductor(), "nlt" + uuid.uuid4().hex[:8]
    with contextlib.ExitStack() as stack:
        sock = sockets.bind("0.0.0.0", 0)
        conf = conf_module.load([], config_files=[], host="node", state_path=str(tmp_path / "state"), network__netns=netns,
                                database__connection=f"sqlite:///{tmp_path}/db", metadata__port=sock.getsockname()[1])
        server = WSGIServer(MetadataHandler(conf, conductor), sock)
        server.start()
        stack.callback(server.stop)
        migration.sync(conf)
        db = Database(conf)
        db.write(networks.create_network, name="private", cidr=free_range(), mtu=1450)
        driver = BridgeNetwork(conf, DatabasePortStore(db))
        driver.init_host("node")
        try:
            yield NetworkHost(netns), driver, conductor, db, f"http://127.0.0.1:{server.port}/"
        finally:
            driver.remove_host()
            subprocess.run(["ip", "netns", "delete", netns], check=True)


@pytest.fixture
def key(tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "id"], check=True)
    return tmp_path / "id"


def _instance(name: str, key: pathlib.Path) -> Instance:
    script = base64.b64encode(b"#!/bin/sh\necho user-data-ran on $(hostname)\n").decode()
    return Instance(uuid=str(uuid.uuid4()), id=7, project_id="p", user_id="u", display_name=name, hostname=name,
                    keypair={"name": "k", "type": "ssh", "public_key": key.with_suffix(".pub").read_text().strip()},
                    user_data=script, flavor=Flavor("1", "m1.tiny", 128, 1, 1))


def _config_drive(directory: pathlib.Path, instance: Instance, password: str) -> pathlib.Path:
    for path, content in guest_metadata.build(instance, instance.network_info, admin_password=password).items():
        (directory / "drive" / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / "drive" / path).write_bytes(content)
    subprocess.run(["genisoimage", "-quiet", "-J", "-r", "-V", "config-2", "-o", directory / "drive.iso", directory / "drive"],
                   check=True, capture_output=True)
    return directory / "drive.iso"


class Guest:
    """One QEMU process; its console is a file, its monitor a socket."""

    def __init__(self, directory: pathlib.Path, at: NetworkHost, bridge: str, vif, drive: pathlib.Path | None) -> None:
        self.console_file, self.monitor = directory / "console", directory / "monitor"
        disk = directory / "disk"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", tiny_image(), disk, "300M"], check=True)
        at.ip("tuntap", "add", vif.devname, "mode", "tap")
        at.ip("link", "set", vif.devname, "master", bridge, "up")
        # 128 MiB are too few for the processes of FLOOD
        command = ["ip", "netns", "exec", at.netns, "qemu-system-x86_64", "-accel", "tcg,tb-size=32", "-m", "256",
                   "-nodefaults", "-display", "none", "-drive", f"file={disk},if=virtio",
                   "-serial", f"file:{self.console_file}",
                   "-netdev", f"tap,id=n,ifname={vif.devname},script=no,downscript=no",
                   "-device", f"virtio-net-pci,netdev=n,mac={vif.mac_address}",
                   "-monitor", f"unix:{self.monitor},server,nowait"]
        self.process = subprocess.Popen([*command, *(["-cdrom", str(drive)] if drive else [])])

    def console(self) -> str:
        return self.console_file.read_text(errors="replace") if self.console_file.exists() else ""

    def wait_login(self) -> str:
        wait_for("the login prompt", lambda: "login:" in self.console(), BOOT_SECONDS, 0.5)
        return self.console()

    def power_button(self) -> None:
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self.monitor))
            monitor.sendall(b"system_powerdown\n")
            said = b""
            while said.count(b"(qemu) ") < 2:       # QEMU forgets what it has not read when the line is closed
                said += monitor.recv(1000)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def _boot(cloud, tmp_path, instance, config_drive: bool):
    at, driver, conductor, db, _url = cloud
    add_server(db, instance)
    instance.network_info = driver.allocate(CONTEXT, instance, "auto", "node")
    vif = instance.network_info[0]
    driver.plug(instance, vif)
    conductor.instance = instance
    drive = _config_drive(tmp_path, instance, "Secret-1") if config_drive else None
    guest = Guest(tmp_path, at, vif.details["bridge"], vif, drive)
    try:
        yield guest, vif.fixed_ips[0].address
    finally:
        guest.close()
        driver.unplug(instance, vif)
        assert not at.exists(vif.devname)


def test_config_drive_and_metadata_service(cloud, tmp_path, key):
    at = cloud[0]
    instance = _instance("from-drive", key)
    with _boot(cloud, tmp_path, instance, config_drive=True) as (guest, address):
        instance.hostname = "from-web"       # what the service says from now on
        console = guest.wait_login()
        assert "tiny: config-drive-hostname from-drive" in console
        wait_for("the metadata", lambda: "tiny: metadata-hostname from-web" in guest.console(), 60)
        assert "tiny: source config-drive" in console
        assert "tiny: hostname from-drive" in console
        assert re.search(rf"tiny: eth0 {re.escape(address)}/29 by DHCP", console)
        assert "user-data-ran on from-drive" in console
        assert int(re.search(r"tiny: root (\d+) MiB", console)[1]) > 200      # the image has 64

        def ssh(command: str) -> str:
            return at.run(*SSH, "-i", str(key), f"root@{address}", command, check=False).stdout.strip()
        assert wait_for("ssh", lambda: ssh("hostname"), 60) == "from-drive"
        assert ssh("cat /sys/class/net/eth0/mtu") == "1450"
        assert "169.254.169.254" in ssh("ip route")
        assert ssh("wget -q -O - http://169.254.169.254/latest/meta-data/local-ipv4") == address
        network = ipaddress.ip_network(f"{address}/29", strict=False)
        foreign = next(str(one) for one in network.hosts() if str(one) not in (address, str(network[1])))
        ssh(f"ip address add {foreign}/29 dev eth0")
        ping = f"ping -c 1 -W 2 {network[1]} >/dev/null && echo answered || echo silent"
        assert ssh(ping) == "answered"
        assert ssh(ping.replace("ping", f"ping -I {foreign}", 1)) == "silent"     # an address that is not the guest's
        guest.power_button()
        assert guest.process.wait(timeout=60) == 0
        assert "tiny: ACPI power button" in guest.console()


def test_metadata_service_alone(cloud, tmp_path, key):
    with _boot(cloud, tmp_path, _instance("from-web", key), config_drive=False) as (guest, _address):
        console = guest.wait_login()
        assert "tiny: metadata-hostname from-web" in console
        assert "tiny: source metadata" in console
        assert "user-data-ran on from-web" in console
        assert "from-web login:" in console


FLOOD = """
for n in $(seq 300); do sleep 60 | nc 169.254.169.254 80 >/dev/null & done
head=$(printf 'POST / HTTP/1.1\\r\\nHost: x\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n')
for n in $(seq 5); do (printf 'GET /'; tr '\\0' a </dev/zero) | nc 169.254.169.254 80 >/dev/null & done
for n in $(seq 5); do (echo "$head"; tr '\\0' 1 </dev/zero) | nc 169.254.169.254 80 >/dev/null & done
"""


@pytest.mark.long
def test_a_guest_that_floods_the_metadata_service_stops_nobody_else(cloud, tmp_path, key):
    at, url = cloud[0], cloud[-1]
    with _boot(cloud, tmp_path, _instance("flood", key), config_drive=False) as (guest, address):
        guest.wait_login()

        def ssh(command: str) -> str:
            return at.run(*SSH, "-i", str(key), f"root@{address}", command, check=False).stdout.strip()
        wait_for("ssh", lambda: ssh("hostname") == "flood", 60)
        before = _memory()
        ssh(f"cat >flood <<'END'\n{FLOOD}END\nsh flood >/dev/null 2>&1 </dev/null &")
        wait_for("the flood", lambda: int(ssh("ps | grep -c '[n]c 169'") or 0) > 100, 60)
        end, longest = time.monotonic() + 20, 0.0
        while time.monotonic() < end:
            asked = time.monotonic()
            assert requests.get(url, timeout=3).status_code == 200
            longest = max(longest, time.monotonic() - asked)
        print(f"longest answer {longest:.2f} s, memory grew by {_memory() - before:.0f} MiB")
        assert _memory() - before < 50


def _memory() -> float:
    """MiB of this process."""
    return int(re.findall(r"VmRSS:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[0]) / 1024
