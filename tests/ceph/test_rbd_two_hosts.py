"""All services, two libvirt hosts, disks in a real Ceph pool: guests that live move, and what they wrote is there."""
from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import uuid

import pytest

from tests.ceph.cluster import Ceph, missing
from tests.ceph.conftest import CAPABILITIES, POOL
from tests.guest import tiny_image
from tests.integration.conftest import ssh_key  # noqa: F401
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import wait_for
from tests.support.two_hosts import TwoHosts

_SUM = "sha256sum /root/kept | cut -c1-64"


class RbdHosts(TwoHosts):
    """The cluster is reached at the management network's gateway, which is this machine."""

    def __init__(self, directory, rabbit, database_url, **options):
        ceph, self.secret = pathlib.Path(tempfile.mkdtemp(prefix="ceph-")), str(uuid.uuid4())
        super().__init__(directory, rabbit, database_url, libvirt__images_type="rbd", libvirt__images_rbd_pool=POOL,
                         libvirt__images_rbd_ceph_conf=ceph / "ceph.conf", libvirt__rbd_user="nova",
                         libvirt__rbd_secret_uuid=self.secret, **options)
        self.ceph = Ceph(ceph, self.gateway)

    def _make_networks(self):
        super()._make_networks()
        self.ceph.__enter__()
        self.ceph.make_pool(POOL)
        self.ceph.key = self.ceph.make_user("nova", *CAPABILITIES)

    def stop(self):
        try:
            super().stop()
        finally:
            self.ceph.__exit__()
            shutil.rmtree(self.ceph.directory)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory):
    if missing():
        pytest.skip(missing())
    directory = tmp_path_factory.mktemp("two")
    rabbit, maria = RabbitMQ(directory / "rabbitmq", "0.0.0.0"), MariaDB(directory / "mariadb")
    cloud = None
    try:
        rabbit.start()
        maria.start()
        cloud = RbdHosts(directory / "cloud", rabbit, maria.new_database(), conductor__lease_seconds=9,
                         conductor__sweep_interval=2, conductor__max_attempts=20, compute__report_interval=3,
                         compute__service_down_time=15, compute__sync_power_state_interval=5)
        cloud.start().add_image(tiny_image())
        for host in cloud.hosts.values():
            cloud.ceph.give_key(host.uri, cloud.ceph.key, cloud.secret)
        yield cloud
    finally:
        if cloud is not None:
            cloud.stop()
        rabbit.close()
        maria.close()


@pytest.fixture(scope="module")
def user(two_hosts, ssh_key):  # noqa: F811
    client = two_hosts.client(version="2.95")
    client.ok("POST", "/os-keypairs", json={"keypair": {"name": "k", "type": "ssh",
                                                        "public_key": ssh_key.with_suffix(".pub").read_text().strip()}})
    for name, disk, ephemeral in (("small", 1, 0), ("large", 2, 1)):
        body = {"name": name, "ram": 128, "vcpus": 1, "disk": disk, "OS-FLV-EXT-DATA:ephemeral": ephemeral}
        setattr(client, name, client.ok("POST", "/flavors", json={"flavor": body})["flavor"]["id"])
    return client


@pytest.fixture(scope="module")
def guest(two_hosts, user, ssh_key):  # noqa: F811
    """(id, address) of one guest for the whole module, with a file whose checksum is ``two_hosts.kept``."""
    server = user.boot("mover", user.small, networks="auto", key_name="k", config_drive=True, host="host-a")
    address = user.wait(server["id"], "ACTIVE", 240)["addresses"]["private"][0]["addr"]
    two_hosts.wait_ssh(ssh_key, address, "head -c 3000000 /dev/urandom > /root/kept; sync; hostname")
    two_hosts.kept = two_hosts.ssh(ssh_key, address, _SUM)
    yield server["id"], address
    user.delete(server["id"])
    user.wait_gone(server["id"])
    assert two_hosts.ceph.images(POOL) == []
    assert two_hosts.a.files(server["id"]) + two_hosts.b.files(server["id"]) == []


def _check(two_hosts, guest, key, host):
    """One guest on that host, with its file, which is read from the disk; and that host's images."""
    server_id, address = guest
    assert two_hosts.host_of(server_id) is host
    assert two_hosts.where(server_id) == {host.name[-1]: "running"}
    assert two_hosts.wait_ssh(key, address, f"sync; echo 3 > /proc/sys/vm/drop_caches; {_SUM}") == two_hosts.kept
    assert set(_owners(two_hosts).values()) == {host.name}


def _owners(two_hosts):
    ceph = two_hosts.ceph
    notes = {name: ceph.json("rbd", "image-meta", "list", f"{POOL}/{name}") for name in ceph.images(POOL)}
    return {name.partition("_")[2]: json.loads(some["nova_lite.guest"]).get("host", "-") for name, some in notes.items()}


def _snapshots(two_hosts):
    ceph = two_hosts.ceph
    return [found for name in ceph.images(POOL) for found in ceph.json("rbd", "snap", "ls", f"{POOL}/{name}")]


@pytest.mark.timeout(900)
def test_a_guest_that_runs_moves_without_its_disk(two_hosts, user, guest, ssh_key):  # noqa: F811
    server_id, address = guest
    _check(two_hosts, guest, ssh_key, two_hosts.a)
    before = float(two_hosts.ssh(ssh_key, address, "cat /proc/uptime").split()[0])
    user.action(server_id, "os-migrateLive", {"host": None, "block_migration": "auto"})
    user.wait(server_id, "ACTIVE", 240)
    _check(two_hosts, guest, ssh_key, two_hosts.b)
    assert float(two_hosts.ssh(ssh_key, address, "cat /proc/uptime").split()[0]) > before
    assert two_hosts.a.files(server_id) == []
    assert "disk.config" in two_hosts.b.files(server_id)
    refused = user.request("POST", f"/servers/{server_id}/action",
                           json={"os-migrateLive": {"host": None, "block_migration": True}})
    wait_for("an end", lambda: not user.server(server_id)["OS-EXT-STS:task_state"], 60)
    assert refused.status_code in (202, 400)
    _check(two_hosts, guest, ssh_key, two_hosts.b)


@pytest.mark.timeout(900)
def test_a_daemon_killed_during_the_copy(two_hosts, user, guest, ssh_key):  # noqa: F811
    server_id, _ = guest
    source = two_hosts.host_of(server_id)
    daemon = two_hosts.processes[f"compute-{source.name[-1]}"]
    source.virsh("migrate-setspeed", server_id, "8")
    user.action(server_id, "os-migrateLive", {"host": None, "block_migration": "auto"})
    wait_for("the copy", lambda: any(m["memory_processed_bytes"] for m in user.ok("GET", f"/servers/{server_id}/migrations")[
        "migrations"]), 120)
    assert set(_owners(two_hosts).values()) == {"-"}
    daemon.kill()
    other = two_hosts.other(source)
    wait_for("the copy to end", lambda: two_hosts.where(server_id) == {other.name[-1]: "running"}, 240, 0.5)
    daemon.start()
    user.wait(server_id, "ACTIVE", 240)
    _check(two_hosts, guest, ssh_key, other)
    wait_for("nothing to be left", lambda: source.files(server_id) == [], 60)


@pytest.mark.timeout(900)
def test_migrate_and_revert_undoes_what_was_done_meanwhile(two_hosts, user, guest, ssh_key):  # noqa: F811
    server_id, address = guest
    old = two_hosts.host_of(server_id)
    user.action(server_id, "resize", {"flavorRef": user.large})
    user.wait(server_id, "VERIFY_RESIZE", 240)
    _check(two_hosts, guest, ssh_key, two_hosts.other(old))
    assert sorted(_owners(two_hosts)) == ["disk", "disk.eph0"]
    two_hosts.ssh(ssh_key, address, "rm /root/kept; sync")
    user.action(server_id, "revertResize")
    user.wait(server_id, "ACTIVE", 240)
    _check(two_hosts, guest, ssh_key, old)
    assert sorted(_owners(two_hosts)) == ["disk"]
    assert (_snapshots(two_hosts), two_hosts.other(old).files(server_id)) == ([], [])


@pytest.mark.timeout(900)
def test_resize_and_confirm_while_daemons_are_killed(two_hosts, user, guest, ssh_key):  # noqa: F811
    server_id, address = guest
    old = two_hosts.host_of(server_id)
    new = two_hosts.other(old)
    user.action(server_id, "resize", {"flavorRef": user.large})
    wait_for("its begin", lambda: user.server(server_id)["OS-EXT-STS:task_state"] not in (None, "resize_prep"), 60, 0.02)
    for host in (old, new):
        two_hosts.restart(f"compute-{host.name[-1]}")
    user.wait(server_id, "VERIFY_RESIZE", 240)
    _check(two_hosts, guest, ssh_key, new)
    assert two_hosts.ssh(ssh_key, address, "cat /sys/block/vda/size") == str(2 * 1024 ** 3 // 512)
    user.action(server_id, "confirmResize")
    two_hosts.restart(f"compute-{old.name[-1]}")
    user.wait(server_id, "ACTIVE", 120)
    wait_for("nothing to be left", lambda: (_snapshots(two_hosts), old.files(f"{server_id}_resize")) == ([], []), 60)
    _check(two_hosts, guest, ssh_key, new)


@pytest.mark.timeout(900)
def test_shelved_and_unshelved_it_has_its_file(two_hosts, user, guest, ssh_key):  # noqa: F811
    server_id, _ = guest
    user.action(server_id, "shelve")
    user.wait(server_id, "SHELVED_OFFLOADED", 240)
    assert two_hosts.ceph.images(POOL) == []
    user.action(server_id, "unshelve")
    user.wait(server_id, "ACTIVE", 240)
    _check(two_hosts, guest, ssh_key, two_hosts.host_of(server_id))


@pytest.mark.timeout(900)
def test_an_evacuation_keeps_the_disk(two_hosts, user, guest, ssh_key):  # noqa: F811
    server_id, _ = guest
    source = two_hosts.host_of(server_id)
    other = two_hosts.other(source)
    daemon = two_hosts.processes[f"compute-{source.name[-1]}"]
    daemon.kill()
    source.virsh("destroy", server_id)
    evacuate = {"json": {"evacuate": {"host": other.name}}, "version": "2.94"}
    wait_for("the host to be down", lambda: user.request("POST", f"/servers/{server_id}/action", **evacuate).status_code == 200,
             120, 1)
    user.wait(server_id, "ACTIVE", 240)
    daemon.start()
    wait_for("what was of it to go", lambda: source.files(server_id) == [], 120, 1)
    _check(two_hosts, guest, ssh_key, other)
