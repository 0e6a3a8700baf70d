"""Rebuild, rescue and shelving of a running guest on the two libvirt hosts: what is in the guest and left on the hosts.

One guest goes through all of it, and the conductor is killed on the way; each test goes on where the one before ended.
"""
from __future__ import annotations

import os
import shutil

import pytest

from tests.support.process import wait_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"), reason="needs root and QEMU"),
    pytest.mark.timeout(900)]       # the first test starts the cloud, too
# which of the first two disks has which mark; one of them is the root disk, and both carry its label
LOOK = """root=$(cat /dev/.rootdisk); mkdir -p /mnt
for disk in vda vdb; do
  if [ "$root" = /dev/$disk ]; then cat /root/mark 2>/dev/null | sed "s/^/$disk /"
  else mount -o ro /dev/$disk /mnt && { cat /mnt/root/mark 2>/dev/null | sed "s/^/$disk /"; umount /mnt; }; fi
done"""


@pytest.fixture(scope="module")
def user(two_hosts, ssh_key):
    client = two_hosts.client(version="2.95")
    client.ok("POST", "/os-keypairs", json={"keypair": {"name": "states", "type": "ssh",
                                                        "public_key": ssh_key.with_suffix(".pub").read_text().strip()}})
    client.tiny = client.ok("POST", "/flavors", json={"flavor": {"name": "tiny-states", "ram": 128, "vcpus": 1, "disk": 1}})[
        "flavor"]["id"]
    return client


@pytest.fixture(scope="module")
def volume(user):
    made = user.ok("POST", "/os-volumes", version="2.35", json={"volume": {"size": 1, "display_name": "data"}})["volume"]["id"]
    yield made
    user.ok("DELETE", f"/os-volumes/{made}", version="2.35")


@pytest.fixture(scope="module")
def guest(two_hosts, user, volume, ssh_key):
    """(id, address) of a guest with a mark on its root disk and another on its volume."""
    server = user.boot("stater", user.tiny, networks="auto", key_name="states", config_drive=True, host="host-a")["id"]
    address = user.wait(server, "ACTIVE", 180)["addresses"]["private"][0]["addr"]
    two_hosts.wait_ssh(ssh_key, address)
    user.ok("POST", f"/servers/{server}/os-volume_attachments", json={"volumeAttachment": {"volumeId": volume}})
    wait_for("the volume", lambda: two_hosts.ssh(ssh_key, address, "ls /dev/vdb"), 60, 0.5)
    two_hosts.ssh(ssh_key, address, "echo first > /root/mark; echo on-the-volume | dd of=/dev/vdb conv=notrunc,fsync; sync")
    yield server, address
    user.delete(server)
    user.wait_gone(server)
    assert (two_hosts.a.left(), two_hosts.b.left()) == ({}, {})


def status_of(user, volume):
    return user.ok("GET", f"/os-volumes/{volume}", version="2.35")["volume"]["status"]


def kill_when(two_hosts, user, server, *task_states):
    """kill -9 of the conductor as soon as the server is in one of these states, and its start. (A compute daemon takes as long
    to start, on a busy machine, as a host needs to count as dead: the unit tests end those.)"""
    wait_for("a state to be killed in", lambda: user.server(server)["OS-EXT-STS:task_state"] in task_states, 60, 0.02)
    two_hosts.restart("conductor")


def test_a_rebuild_keeps_address_and_volume_and_nothing_else(two_hosts, user, guest, volume, ssh_key):
    server, address = guest
    image = user.server(server)["image"]["id"]
    user.action(server, "rebuild", {"imageRef": image, "metadata": {"rebuilt": "yes"}})
    kill_when(two_hosts, user, server, "rebuilding", "rebuild_block_device_mapping", "rebuild_spawning")
    shown = user.wait(server, "ACTIVE", 180)
    assert shown["addresses"]["private"][0]["addr"] == address
    assert shown["metadata"] == {"rebuilt": "yes"}
    assert two_hosts.wait_ssh(ssh_key, address, "cat /root/mark 2>/dev/null || echo nothing") == "nothing"
    assert two_hosts.ssh(ssh_key, address, "head -c 13 /dev/vdb") == "on-the-volume"
    assert two_hosts.where(server) == {"a": "running"}
    assert status_of(user, volume) == "in-use"
    two_hosts.ssh(ssh_key, address, "echo second > /root/mark; sync")


def test_a_rescue_sees_the_old_disk_as_the_second_one(two_hosts, user, guest, ssh_key):
    server, address = guest
    assert user.action(server, "rescue", {"adminPass": "MySecretPass"}) == {"adminPass": "MySecretPass"}
    assert user.wait(server, "RESCUE", 180)["addresses"]["private"][0]["addr"] == address
    assert "disk.rescue" in two_hosts.a.files(server)
    assert two_hosts.wait_ssh(ssh_key, address, LOOK) == "vdb second"
    user.action(server, "unrescue")
    user.wait(server, "ACTIVE", 60)
    assert not [name for name in two_hosts.a.files(server) if "rescue" in name]
    assert two_hosts.where(server) == {"a": "running"}


def test_a_shelved_server_comes_back_on_another_host_with_its_files(two_hosts, user, guest, volume, ssh_key):
    server, address = guest
    user.action(server, "shelve")
    kill_when(two_hosts, user, server, "shelving_image_pending_upload", "shelving_image_uploading", "shelving_offloading")
    shown = user.wait(server, "SHELVED_OFFLOADED", 180)
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["OS-EXT-AZ:availability_zone"]) == (None, "")
    assert two_hosts.where(server) == {}
    assert (two_hosts.a.left(), status_of(user, volume)) == ({}, "reserved")
    images = {i["name"]: i["id"] for i in user.ok("GET", "/images", version="2.1")["images"]}
    assert "stater-shelved" in images
    user.ok("POST", f"/servers/{server}/action", json={"unshelve": {"host": "host-b"}})
    assert user.wait(server, "ACTIVE", 180)["addresses"]["private"][0]["addr"] == address
    assert two_hosts.wait_ssh(ssh_key, address, "cat /root/mark") == "second"
    assert two_hosts.ssh(ssh_key, address, "head -c 13 /dev/vdb") == "on-the-volume"
    assert two_hosts.where(server) == {"b": "running"}
    assert status_of(user, volume) == "in-use"
    assert "stater-shelved" not in {i["name"] for i in user.ok("GET", "/images", version="2.1")["images"]}
