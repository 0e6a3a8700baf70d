"""Moves of running guests between two libvirt hosts: what is inside the guest, on both hypervisors, and in the API."""
from __future__ import annotations

import os
import shutil

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"), reason="needs root and QEMU")


@pytest.fixture(scope="module")
def user(two_hosts, ssh_key):
    """The admin's client, with a key pair and a flavor for the tiny guest."""
    client = two_hosts.client(version="2.95")
    client.ok("POST", "/os-keypairs", json={"keypair": {"name": "k", "type": "ssh",
                                                        "public_key": ssh_key.with_suffix(".pub").read_text().strip()}})
    client.tiny = client.ok("POST", "/flavors", json={"flavor": {"name": "tiny2", "ram": 128, "vcpus": 1, "disk": 1}})[
        "flavor"]["id"]
    return client


@pytest.fixture(scope="module")
def guest(two_hosts, user, ssh_key):
    """(id, address) of one running guest for the whole module, on host-a, reachable by ssh."""
    server = user.boot("mover", user.tiny, networks="auto", key_name="k", config_drive=True, host="host-a")
    address = user.wait(server["id"], "ACTIVE", 180)["addresses"]["private"][0]["addr"]
    two_hosts.wait_ssh(ssh_key, address)
    yield server["id"], address
    user.delete(server["id"])
    user.wait_gone(server["id"])


def test_a_guest_is_on_one_host_and_reached_from_the_switch(two_hosts, guest, ssh_key):
    server_id, address = guest
    assert two_hosts.where(server_id) == {"a": "running"}
    assert two_hosts.host_of(server_id) is two_hosts.a
    assert two_hosts.ssh(ssh_key, address, "hostname") == "mover"
    assert two_hosts.b.left() == {}


def _migrate(user, server_id, host=None, **more):
    user.action(server_id, "os-migrateLive", {"host": host, "block_migration": "auto", **more})


def _moves(user, server_id):
    return user.ok("GET", f"/os-migrations?instance_uuid={server_id}&migration_type=live-migration")["migrations"]


def _uptime(two_hosts, ssh_key, address):
    return float(two_hosts.ssh(ssh_key, address, "cat /proc/uptime").split()[0])


def test_a_running_guest_moves_with_its_disks_and_does_not_notice(two_hosts, user, guest, ssh_key):
    server_id, address = guest
    two_hosts.ssh(ssh_key, address, "dd if=/dev/urandom of=/root/data bs=1k count=3000; sync")
    digest, before = two_hosts.ssh(ssh_key, address, "md5sum /root/data"), _uptime(two_hosts, ssh_key, address)
    pings = two_hosts.ping(address)
    _migrate(user, server_id)
    server = user.wait(server_id, "ACTIVE", 180)
    assert server["OS-EXT-SRV-ATTR:host"] == "host-b"
    assert two_hosts.where(server_id) == {"b": "running"}
    assert two_hosts.a.left() == {}
    assert _uptime(two_hosts, ssh_key, address) > before
    silent = pings.stop()
    # a machine with more to do than it has processors stretches everything, and the guests' emulation most of all
    assert silent <= 2.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), silent
    assert two_hosts.ssh(ssh_key, address, "sync; echo 3 > /proc/sys/vm/drop_caches; md5sum /root/data") == digest
    assert "disk.config" in two_hosts.b.files(server_id)
    assert _moves(user, server_id)[0]["status"] == "completed"
