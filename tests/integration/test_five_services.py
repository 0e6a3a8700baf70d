"""Five services on RabbitMQ with MariaDB, and with PostgreSQL: a real guest on libvirt, from boot to delete."""
from __future__ import annotations

import os
import re
import subprocess
import time

import pytest

from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost
from tests.support.cloud import Services
from tests.support.engines import MariaDB, PostgreSQL, RabbitMQ
from tests.support.process import wait_for

USER_DATA = "IyEvYmluL3NoCmVjaG8gdXNlci1kYXRhLXJhbgo="     # echo user-data-ran


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory):
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt")) as host:
        yield host


@pytest.fixture(scope="module", params=[
    pytest.param(MariaDB, id="mariadb"), pytest.param(PostgreSQL, id="postgresql", marks=pytest.mark.long)])
def cloud(request, rabbit, hypervisor, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param.__name__)
    database = request.param(directory / "database").start()
    # names and addresses of this run alone: bridges are the machine's, and another run may be under way beside this one
    number = os.getpid() % 100
    prefix, cidr = {"MariaDB": (f"ma{number}", f"10.{100 + number}.1.0/24"),
                    "PostgreSQL": (f"pg{number}", f"10.{100 + number}.2.0/24")}[request.param.__name__]
    services = Services(directory / "cloud", rabbit.url, database.new_database(),
                        host=f"node-{prefix}", compute__driver="libvirt", libvirt__connection_uri=hypervisor.uri,
                        network__driver="bridge", network__bridge_prefix=prefix, compute__shutdown_timeout=30,
                        compute__sync_power_state_interval=0)     # a guest that goes down by itself is told by libvirt
    try:
        services.start()
        services.add_image(tiny_image())
        services.manage("network", "create", "--name", "private", "--cidr", cidr)
        yield services
    finally:
        services.stop()
        services.remove_bridges()
        database.close()


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def _console(client, server_id: str) -> str:
    return client.action(server_id, "os-getConsoleOutput", {})["output"]


def _ssh(key, address: str, command: str) -> str:
    return subprocess.run(["ssh", "-i", key, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o",
                           "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=5",
                           f"root@{address}", command], capture_output=True, text=True, timeout=60, check=False).stdout


def _domain_state(hypervisor, server_id: str) -> str:
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, "domstate", server_id], capture_output=True, text=True,
                          check=False).stdout.strip()


def test_a_guest_from_boot_to_delete(cloud, hypervisor, key, tmp_path):
    client = cloud.client()
    client.ok("POST", "/os-keypairs", json={"keypair": {"name": "k", "type": "ssh",
                                                        "public_key": key.with_suffix(".pub").read_text().strip()}})
    flavor = client.ok("POST", "/flavors", json={"flavor": {"name": "tiny", "ram": 128, "vcpus": 1, "disk": 1}})["flavor"]
    server = client.boot("guest-one", flavor["id"], networks="auto", key_name="k", config_drive=True, user_data=USER_DATA)
    server_id = server["id"]
    shown = client.wait(server_id, "ACTIVE", 180)
    assert shown["addresses"], shown
    address = shown["addresses"]["private"][0]["addr"]
    console = wait_for("the login prompt", lambda: "login:" in (c := _console(client, server_id)) and c, 600, 1)

    # what the guest says of itself: DHCP address, and its name from both sources
    assert re.search(rf"tiny: eth0 {re.escape(address)}\b", console), console[-2000:]
    assert "tiny: hostname guest-one" in console
    assert "tiny: config-drive-hostname guest-one" in console
    wait_for("the metadata", lambda: "tiny: metadata-hostname guest-one" in _console(client, server_id), 60, 1)
    assert "user-data-ran" in console
    assert wait_for("ssh", lambda: _ssh(key, address, "hostname").strip(), 60) == "guest-one"
    assert key.with_suffix(".pub").read_text().split()[1] in _ssh(key, address, "wget -q -O - "
                                                                  "http://169.254.169.254/openstack/latest/meta_data.json")

    for action, argument, status, domain in (
            ("pause", None, "PAUSED", "paused"), ("unpause", None, "ACTIVE", "running"),
            ("suspend", None, "SUSPENDED", "shut off"), ("resume", None, "ACTIVE", "running"),
            ("reboot", {"type": "SOFT"}, "ACTIVE", "running"), ("reboot", {"type": "HARD"}, "ACTIVE", "running"),
            ("os-stop", None, "SHUTOFF", "shut off"), ("os-start", None, "ACTIVE", "running")):
        if action in ("reboot", "os-stop"):
            wait_for("ssh before " + action, lambda: _ssh(key, address, "hostname").strip(), 120)
        _ssh(key, address, "touch /root/kept; sync")
        client.action(server_id, action, argument)
        client.wait(server_id, status, 120)
        assert _domain_state(hypervisor, server_id) == domain, action
    assert "kept" in wait_for("ssh after start", lambda: _ssh(key, address, "ls /root"), 120)

    # a guest that powers itself off is seen within seconds
    _ssh(key, address, "poweroff")
    client.wait(server_id, "SHUTOFF", 60)

    files = cloud.directory / "instances" / server_id
    assert files.exists()
    client.delete(server_id)
    client.wait_gone(server_id)
    assert _domain_state(hypervisor, server_id) == ""
    assert not files.exists()
    assert "tap" not in subprocess.run(["ip", "-o", "link", "show", "type", "tun"], capture_output=True, text=True,
                                       check=True).stdout


def test_compute_killed_in_the_middle_of_a_build(cloud, hypervisor):
    client = cloud.client()
    flavor = next(f["id"] for f in client.ok("GET", "/flavors")["flavors"] if f["name"] == "tiny")
    server = client.boot("survivor", flavor, networks="auto")
    wait_for("the build to reach the host", lambda: client.server(server["id"])["OS-EXT-STS:task_state"] not in (
        "scheduling", None), 30, 0.01)
    time.sleep(0.05)
    cloud.restart("compute")
    client.wait(server["id"], "ACTIVE", 180)
    domains = subprocess.run(["virsh", "-q", "-c", hypervisor.uri, "list", "--all", "--uuid"], capture_output=True,
                             text=True, check=True).stdout.split()
    assert domains.count(server["id"]) == 1
    disks = [p.name for p in (cloud.directory / "instances" / server["id"]).iterdir() if p.name.startswith("disk")]
    assert "disk" in disks
    assert not [d for d in disks if d.endswith((".part", ".partial", ".tmp"))]
    # the guests outlive the daemon, too
    cloud.restart("compute")
    time.sleep(3)
    assert _domain_state(hypervisor, server["id"]) == "running"
    client.wait(server["id"], "ACTIVE", 30)
    client.delete(server["id"])
    client.wait_gone(server["id"])
