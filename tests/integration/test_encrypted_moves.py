"""An encrypted volume of a guest that goes to another host, live or by an evacuation: its key goes along, and does not stay."""
from __future__ import annotations

import os
import pathlib
import shutil

import pytest

from nova_lite import keymgr
from tests.guest import tiny_image
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.fake_cinder import FakeCinder
from tests.support.fake_openstack import FakeOpenStack
from tests.support.process import wait_for
from tests.support.storage import NbdServer
from tests.support.two_hosts import TwoHosts, gateway

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("qemu-system-x86_64"), reason="needs root and QEMU")]

KEY = "5ec2e7" * 10 + "0f0e"
ENCRYPTED = {"provider": "luks", "encryption_key_id": keymgr.FIXED_KEY_ID, "cipher": "aes-xts-plain64", "key_size": 256}
SIZE = 64 << 20     # bytes
_DISK = "d=/dev/$(ls /sys/block | grep '^vd' | tail -n 1)"
_CLEAR = b"clear-to-the-guest"


@pytest.fixture(scope="module")
def cinder():
    made = FakeCinder()
    made.tokens = {"admin:demo": "demo"}
    return made


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory, cinder):
    """As the other tests' two hosts, with volumes of a Cinder and a key of the configuration."""
    directory = tmp_path_factory.mktemp("two")
    rabbit, maria = RabbitMQ(directory / "rabbitmq", "0.0.0.0"), MariaDB(directory / "mariadb")  # noqa: S104
    neighbour = FakeOpenStack("block-storage", cinder, versions={"v3.71": "/v3/"}, host=gateway())
    cloud = None
    try:
        rabbit.start()
        maria.start()
        cloud = TwoHosts(directory / "cloud", rabbit, maria.new_database(), conductor__lease_seconds=9,
                         conductor__sweep_interval=2, compute__report_interval=3, compute__service_down_time=15,
                         compute__sync_power_state_interval=5, volume__driver="cinder", key_manager__backend="ConfKeyManager",
                         key_manager__fixed_key=KEY, **{f"service_user__{k}": v for k, v in neighbour.options.items()})
        cloud.start().add_image(tiny_image())
        yield cloud
    finally:
        if cloud is not None:
            cloud.stop()
        neighbour.close()
        rabbit.close()
        maria.close()


@pytest.fixture(scope="module")
def volume(tmp_path_factory, cinder):
    """(id, path) of a volume that is still empty, on a server of NBD."""
    path = tmp_path_factory.mktemp("volume") / "volume"
    with path.open("wb") as file:
        file.truncate(SIZE)
    server = NbdServer(path, host=gateway())
    info = server.connection_info
    yield cinder.add_volume("demo", encrypted=True, encryption=ENCRYPTED, connection={
        "driver_volume_type": info["driver_volume_type"], **info["data"]}), path
    server.stop()


@pytest.fixture(scope="module")
def user(two_hosts, ssh_key):
    client = two_hosts.client(version="2.95")
    client.ok("POST", "/os-keypairs", json={"keypair": {"name": "k", "type": "ssh",
                                                        "public_key": ssh_key.with_suffix(".pub").read_text().strip()}})
    return client


@pytest.fixture(scope="module")
def guest(two_hosts, user, ssh_key, cinder, volume):
    """(id, address) of a guest on host-a that has the volume, with a file system and a file in it."""
    tiny = user.ok("POST", "/flavors", json={"flavor": {"name": "tiny", "ram": 128, "vcpus": 1, "disk": 1}})["flavor"]["id"]
    server = user.boot("mover", tiny, networks="auto", key_name="k", config_drive=True, host="host-a")["id"]
    address = user.wait(server, "ACTIVE", 180)["addresses"]["private"][0]["addr"]
    two_hosts.wait_ssh(ssh_key, address)
    user.ok("POST", f"/servers/{server}/os-volume_attachments", json={"volumeAttachment": {"volumeId": volume[0]}})
    wait_for("the attachment", lambda: cinder.volumes[volume[0]]["status"] == "in-use", 120)
    made = f"{_DISK}; mke2fs -q $d && mount -t ext2 $d /mnt && echo {_CLEAR.decode()} > /mnt/kept && sync && echo done"
    assert wait_for("a file in it", lambda: two_hosts.ssh(ssh_key, address, made), 60, 1).endswith("done")
    yield server, address
    user.delete(server)
    user.wait_gone(server)
    assert [host.left() for host in two_hosts.hosts.values()] == [{}, {}]
    assert cinder.attachments == {}


def _secrets(host):
    return [line.split()[0] for line in host.virsh("secret-list").splitlines()]


def _told(cinder):
    """The hosts that the Volume service lets have the volume."""
    return [row["connection_info"]["told"] for row in cinder.attachments.values()]


def _is_clear_to(two_hosts, ssh_key, address, name):
    """What was written is read from the volume, not from memory, and more can be written."""
    anew = "sync; echo 3 > /proc/sys/vm/drop_caches"
    said = two_hosts.wait_ssh(ssh_key, address, f"{anew}; cat /mnt/kept; echo {name} > /mnt/{name}; {anew}; cat /mnt/{name}")
    assert said.split() == [_CLEAR.decode(), name]


def test_the_key_is_where_the_guest_is(two_hosts, guest, volume):
    data = pathlib.Path(volume[1]).read_bytes()
    assert data[:4] == b"LUKS"
    assert _CLEAR not in data
    assert len(_secrets(two_hosts.a)) == 1
    assert two_hosts.b.left() == {}


@pytest.mark.timeout(900)
def test_a_copy_that_is_given_up_takes_its_key_along(two_hosts, user, guest, ssh_key, cinder):
    server, address = guest
    two_hosts.a.virsh("migrate-setspeed", server, "1")
    user.action(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    path = f"/servers/{server}/migrations"

    def copying():
        return next((m for m in user.ok("GET", path)["migrations"] if m["memory_processed_bytes"]), None)

    move = wait_for("the copy", copying, 120)
    assert _secrets(two_hosts.a) == _secrets(two_hosts.b)
    assert sorted(_told(cinder)) == ["host-a", "host-b"]
    user.ok("DELETE", f"{path}/{move['id']}")
    user.wait(server, "ACTIVE", 120)
    two_hosts.a.virsh("migrate-setspeed", server, "8796093022207")
    assert two_hosts.where(server) == {"a": "running"}
    assert two_hosts.b.left() == {}
    assert len(_secrets(two_hosts.a)) == 1
    assert _told(cinder) == ["host-a"]
    _is_clear_to(two_hosts, ssh_key, address, "aborted")


@pytest.mark.timeout(900)
def test_a_live_migration_takes_the_volume_and_its_key_along(two_hosts, user, guest, ssh_key, cinder):
    server, address = guest
    before = _secrets(two_hosts.a)
    user.action(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    assert user.wait(server, "ACTIVE", 240)["OS-EXT-SRV-ATTR:host"] == "host-b"
    assert two_hosts.where(server) == {"b": "running"}
    assert two_hosts.a.left() == {}
    assert _secrets(two_hosts.b) == before
    assert _told(cinder) == ["host-b"]
    _is_clear_to(two_hosts, ssh_key, address, "moved")
    user.action(server, "reboot", {"type": "HARD"})         # it starts anew from what is written down here
    user.wait(server, "ACTIVE", 120)
    said = two_hosts.wait_ssh(ssh_key, address, f"{_DISK}; mount -t ext2 $d /mnt && cat /mnt/moved")
    assert said == "moved"


@pytest.mark.timeout(900)
def test_an_evacuation_opens_the_volume_on_the_other_host(two_hosts, user, guest, ssh_key, cinder, volume):
    server, address = guest
    source = two_hosts.host_of(server)
    other = two_hosts.other(source)
    daemon = two_hosts.processes[f"compute-{source.name[-1]}"]
    before = _secrets(source)
    daemon.kill()
    source.virsh("destroy", server)     # the guest ends with its host; what libvirt knows of it stays, the worse case
    evacuate = {"json": {"evacuate": {"host": other.name}}, "version": "2.94"}
    path = f"/servers/{server}/action"
    wait_for("the host to be down", lambda: user.request("POST", path, **evacuate).status_code == 200, 120, 1)
    user.wait(server, "ACTIVE", 240)
    assert two_hosts.host_of(server) is other
    assert _secrets(other) == before
    assert _told(cinder) == [other.name]
    two_hosts.wait_ssh(ssh_key, address, f"{_DISK}; mount -t ext2 $d /mnt && echo mounted")
    _is_clear_to(two_hosts, ssh_key, address, "evacuated")
    two_hosts.ssh(ssh_key, address, "umount /mnt")
    user.ok("DELETE", f"{path.removesuffix('/action')}/os-volume_attachments/{volume[0]}")
    wait_for("the volume to be free", lambda: cinder.volumes[volume[0]]["status"] == "available", 240)
    assert _secrets(other) == []
    assert _secrets(source) == before   # nobody is there to take it away, and the server's record does not name the volume now
    daemon.start()
    wait_for("what was of it to go", lambda: source.left() == {}, 120, 1)
