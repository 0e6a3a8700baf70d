"""A server whose disks are encrypted, from the request to the delete, on two libvirt hosts. See test_libvirt_encrypted_disks.py
for what its driver does."""
from __future__ import annotations

import os
import shutil

import pytest

from tests.integration.conftest import DISKS_KEY
from tests.support.process import wait_for
from tests.support.two_hosts import run

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"), reason="needs root and QEMU")]
MARK = "what-the-guest-wrote"
_READ = "echo 3 > /proc/sys/vm/drop_caches; head -n 1 /root/file"


@pytest.fixture(scope="module")
def user(two_hosts, ssh_key):
    client = two_hosts.client(version="2.95")
    client.ok("POST", "/os-keypairs", json={"keypair": {"name": "e", "type": "ssh",
                                                        "public_key": ssh_key.with_suffix(".pub").read_text().strip()}})
    for name, disk in (("locked", 1), ("larger-locked", 2)):
        made = client.ok("POST", "/flavors", json={"flavor": {"name": name, "id": name, "ram": 128, "vcpus": 1, "disk": disk,
                                                              "OS-FLV-EXT-DATA:ephemeral": 1, "swap": 16}})["flavor"]["id"]
        client.ok("POST", f"/flavors/{made}/os-extra_specs", json={"extra_specs": {"hw:ephemeral_encryption": "true"}})
    return client


def _readable(two_hosts):
    """The files of guests, on both hosts, in which what the guest wrote or the key can be read."""
    places = [str(host.instances) for host in two_hosts.hosts.values()]
    return run("grep", "-r", "-l", "-a", "-F", "-e", MARK, "-e", DISKS_KEY, *places, check=False, timeout=300).split()


@pytest.mark.timeout(1800)
def test_a_server_with_encrypted_disks(two_hosts, user, ssh_key):
    server = user.boot("safe", "locked", networks="auto", key_name="e", config_drive=True, host="host-a")["id"]
    address = user.wait(server, "ACTIVE", 300)["addresses"]["private"][0]["addr"]
    two_hosts.wait_ssh(ssh_key, address, timeout=600)
    write = "for n in 1 2 3 4; do printf 'what-the-%s-wrote\\n' guest; done > /root/file; sync"
    two_hosts.ssh(ssh_key, address, write)
    assert two_hosts.wait_ssh(ssh_key, address, _READ) == MARK
    assert two_hosts.ssh(ssh_key, address, "blkid /dev/vdb").count("ephemeral0") == 1
    assert _readable(two_hosts) == []
    assert len(two_hosts.a.virsh("secret-list").splitlines()) == 1

    path = f"/servers/{server}/action"
    for body in ({"createImage": {"name": "copy"}}, {"shelve": None}):
        answer = user.request("POST", path, json=body)
        assert (answer.status_code, "encrypted disks" in answer.text) == (409, True)
    answer = user.request("POST", path, json={"os-migrateLive": {"host": None, "block_migration": False,
                                                                  "disk_over_commit": False}}, version="2.24")
    assert (answer.status_code, "without shared storage" in answer.text) == (400, True)
    answer = user.request("POST", path, json={"os-migrateLive": {"host": None, "block_migration": True,
                                                                  "disk_over_commit": False}}, version="2.24")
    assert (answer.status_code, "its disks are encrypted" in answer.text) == (400, True)

    user.action(server, "resize", {"flavorRef": "larger-locked"})
    user.wait(server, "VERIFY_RESIZE", 600)
    assert two_hosts.where(server) == {"b": "running"}
    assert two_hosts.wait_ssh(ssh_key, address, _READ, timeout=600) == MARK
    assert two_hosts.ssh(ssh_key, address, "cat /sys/block/vda/size") == str(2 * 1024 ** 3 // 512)
    assert _readable(two_hosts) == []
    user.action(server, "confirmResize")
    user.wait(server, "ACTIVE")
    assert two_hosts.a.left() == {}

    user.action(server, "rebuild", {"imageRef": user.server(server)["image"]["id"]})
    user.wait(server, "ACTIVE", 600)
    assert two_hosts.wait_ssh(ssh_key, address, "ls /root/file 2>/dev/null || echo anew", timeout=600) == "anew"
    user.delete(server)
    user.wait_gone(server)
    wait_for("nothing to be left", lambda: two_hosts.b.left() == {}, 60)
