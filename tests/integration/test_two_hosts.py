"""Moves of running guests between two libvirt hosts: what is inside the guest, on both hypervisors, and in the API."""
from __future__ import annotations

import os
import shutil

import pytest

from nova_lite.virt.libvirt.files import GuestDirectory
from tests.support.guest_files import open_to_others, process_user
from tests.support.process import wait_for
from tests.support.two_hosts import run

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
    owner = (two_hosts.a.instances / server_id / "disk").owner()
    assert process_user(int(run("pgrep", "-f", f"qemu-system.*-uuid {server_id}"))) == owner == two_hosts.a.daemon.qemu_user()
    assert open_to_others(two_hosts.a.instances) == []


def test_a_rule_that_goes_closes_a_guest_that_runs(two_hosts, user, guest):
    def is_open() -> bool:
        said = run("ip", "netns", "exec", two_hosts.switch, "timeout", "5", "bash", "-c",
                   f"exec 3<>/dev/tcp/{guest[1]}/22 && echo open", check=False)
        return said.strip() == "open"
    assert is_open()
    user.ok("DELETE", f"/os-security-group-rules/{two_hosts.ssh_rule}", "2.35")
    try:
        wait_for("a closed door", lambda: not is_open(), 120)
        run("ip", "netns", "exec", two_hosts.switch, "ping", "-c", "1", "-w", "30", guest[1])      # another rule is still there
    finally:
        two_hosts.ssh_rule = user.let_in("tcp", 22, 22)
    wait_for("an open door", is_open, 120)


def _migrate(user, server_id, host=None, **more):
    user.action(server_id, "os-migrateLive", {"host": host, "block_migration": "auto", **more})


def _moves(user, server_id):
    return user.ok("GET", f"/os-migrations?instance_uuid={server_id}&migration_type=live-migration")["migrations"]


def _uptime(two_hosts, ssh_key, address):
    return float(two_hosts.wait_ssh(ssh_key, address, "cat /proc/uptime").split()[0])


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
    assert (two_hosts.b.instances / server_id / "disk").owner() == two_hosts.b.daemon.qemu_user()
    assert open_to_others(two_hosts.b.instances) == []
    assert _uptime(two_hosts, ssh_key, address) > before
    silent = pings.stop()
    # a machine with more to do than it has processors stretches everything, and the guests' emulation most of all
    assert silent <= 2.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), silent
    assert two_hosts.wait_ssh(ssh_key, address, "sync; echo 3 > /proc/sys/vm/drop_caches; md5sum /root/data") == digest
    assert "disk.config" in two_hosts.b.files(server_id)
    assert _moves(user, server_id)[0]["status"] == "completed"


# resize and cold migration ----------------------------------------------------------------------------------------------------
_SUM = "sha256sum /root/kept | cut -c1-64"


@pytest.fixture(scope="module")
def kept(two_hosts, guest, ssh_key):
    """The checksum of a file that the guest's disk keeps."""
    two_hosts.ssh(ssh_key, guest[1], "head -c 3000000 /dev/urandom > /root/kept; sync")
    return two_hosts.ssh(ssh_key, guest[1], _SUM)


@pytest.fixture(scope="module")
def larger(user):
    body = {"name": "larger", "ram": 160, "vcpus": 2, "disk": 2}
    return user.ok("POST", "/flavors", json={"flavor": body})["flavor"]["id"]


def _same_guest(two_hosts, guest, ssh_key, kept, host):
    """One guest, on the host that the API names, with its address and its file; nothing is served any more."""
    server_id, address = guest
    assert two_hosts.where(server_id) == {host.name[-1]: "running"}
    assert two_hosts.host_of(server_id) is host
    assert two_hosts.wait_ssh(ssh_key, address, _SUM) == kept
    assert not run("pgrep", "-f", f"qemu-storage-daemon.*{server_id}", check=False)


@pytest.mark.timeout(900)
def test_resize_to_the_other_host_and_confirm(two_hosts, user, guest, ssh_key, kept, larger):
    server_id, address = guest
    old = two_hosts.host_of(server_id)
    new = two_hosts.other(old)
    user.action(server_id, "resize", {"flavorRef": larger})
    user.wait(server_id, "VERIFY_RESIZE", 240)
    _same_guest(two_hosts, guest, ssh_key, kept, new)
    assert two_hosts.ssh(ssh_key, address, "cat /sys/block/vda/size; nproc") == f"{2 * 1024 ** 3 // 512}\n2"
    assert "disk" in new.files(server_id)
    assert (old.files(server_id), old.taps()) == ([], [])
    assert "disk" in old.files(f"{server_id}_resize")
    base = new.instances / "_base" / user.server(server_id)["image"]["id"]
    assert _flat(new, server_id) == str(base)
    assert open_to_others(old.instances) + open_to_others(new.instances) == []
    user.action(server_id, "confirmResize")
    assert user.wait(server_id, "ACTIVE")["flavor"]["original_name"] == "larger"
    assert old.left() == {}
    [move] = user.ok("GET", f"/os-migrations?instance_uuid={server_id}&migration_type=resize")["migrations"]
    assert (move["status"], move["source_compute"], move["dest_compute"], move["dest_host"]) == (
        "confirmed", old.name, new.name, new.address)


def _flat(host, server_id):
    info = run("qemu-img", "info", "-U", str(host.instances / server_id / "disk"))
    return next(line for line in info.splitlines() if line.startswith("backing file:")).partition(": ")[2].partition(" (")[0]


@pytest.mark.timeout(900)
def test_migrate_and_revert_undoes_what_was_done_meanwhile(two_hosts, user, guest, ssh_key, kept):
    server_id, address = guest
    old = two_hosts.host_of(server_id)
    new = two_hosts.other(old)
    user.action(server_id, "migrate", {"host": new.name})
    user.wait(server_id, "VERIFY_RESIZE", 240)
    _same_guest(two_hosts, guest, ssh_key, kept, new)
    two_hosts.ssh(ssh_key, address, "touch /root/meanwhile; sync")
    user.action(server_id, "revertResize")
    user.wait(server_id, "ACTIVE", 120)
    _same_guest(two_hosts, guest, ssh_key, kept, old)
    assert two_hosts.ssh(ssh_key, address, "test -e /root/meanwhile || echo none") == "none"
    assert new.left() == {}
    assert old.files(f"{server_id}_resize") == []


def _settled(user, server_id):
    server = user.server(server_id)
    done = not server["OS-EXT-STS:task_state"] and server["status"] in ("VERIFY_RESIZE", "ACTIVE", "SHUTOFF", "ERROR")
    return server if done else None


@pytest.mark.long
@pytest.mark.timeout(900)
def test_services_that_are_killed_in_the_middle_of_migrations(two_hosts, user, guest, ssh_key, kept):
    """The new host's daemon while the guest runs; the old one's and the conductor with a stopped guest, as that is faster."""
    server_id, _ = guest
    home = two_hosts.host_of(server_id)
    for number, who in enumerate(("new", "old", "conductor")):
        if number == 1:
            user.action(server_id, "os-stop")
            user.wait(server_id, "SHUTOFF", 120)
        daemons = {"new": two_hosts.other(home), "old": home}
        name = f"compute-{daemons[who].name[-1]}" if who in daemons else who
        user.action(server_id, "migrate")
        wait_for("the move to begin", lambda: user.server(server_id)["OS-EXT-STS:task_state"] not in (None, "resize_prep"), 60,
                 0.02)
        two_hosts.restart(name)
        settled = wait_for("an end", lambda: _settled(user, server_id), 180, 0.2)
        assert settled["status"] != "ERROR", settled["fault"]
        if settled["status"] == "VERIFY_RESIZE":
            user.action(server_id, "confirmResize")
            user.wait(server_id, "ACTIVE" if number == 0 else "SHUTOFF", 60)
            home = two_hosts.other(home)
        assert two_hosts.where(server_id) == {home.name[-1]: "running" if number == 0 else "shut off"}
        wait_for("nothing to be left", lambda h=home: two_hosts.other(h).left() == {}, 60)
        assert home.files(f"{server_id}_resize") == []
    user.action(server_id, "os-start")
    user.wait(server_id, "ACTIVE", 60)
    _same_guest(two_hosts, guest, ssh_key, kept, home)


# what goes wrong with a copy, and with a host
def _slow(host, server_id, megabytes):
    """The next copies from this host take their time; 0: they do not."""
    host.virsh("migrate-setspeed", server_id, str(megabytes or 8796093022207))


def _copying(user, server_id):
    """Wait until bytes travel; the move as the API shows it."""
    path = f"/servers/{server_id}/migrations"

    def found():
        return next((m for m in user.ok("GET", path)["migrations"] if m["memory_processed_bytes"]), None)
    return wait_for("the copy", found, 120)


def test_an_aborted_copy_leaves_nothing_at_the_other_host(two_hosts, user, guest, ssh_key):
    server_id, address = guest
    source = two_hosts.host_of(server_id)
    other = two_hosts.other(source)
    _slow(source, server_id, 3)         # a minute for all, of which the disk, whose bytes go first, takes half
    _migrate(user, server_id)
    move = _copying(user, server_id)
    assert (move["status"], move["dest_compute"]) == ("running", other.name)
    assert 0 < move["memory_remaining_bytes"] <= move["memory_total_bytes"]
    user.ok("DELETE", f"/servers/{server_id}/migrations/{move['id']}")
    user.wait(server_id, "ACTIVE", 120)
    _slow(source, server_id, 0)
    assert two_hosts.host_of(server_id) is source
    assert set(two_hosts.where(server_id).values()) == {"running"}
    assert other.left() == {}
    assert _moves(user, server_id)[0]["status"] == "cancelled"
    assert two_hosts.ssh(ssh_key, address, "hostname") == "mover"


def _memory(host, server_id):
    return host.virsh("domstate", server_id, "--reason", check=False)


def _by_post_copy(user, server_id, source, speed):
    """Begin a slow copy and force it: the rest follows with so many MiB a second."""
    _slow(source, server_id, 3)
    source.virsh("migrate-setspeed", server_id, str(speed), "--postcopy")
    _migrate(user, server_id)
    move = _copying(user, server_id)
    user.ok("POST", f"/servers/{server_id}/migrations/{move['id']}/action", json={"force_complete": None})
    wait_for("the switch", lambda: "post-copy" in _memory(source, server_id) or server_id not in source.guests(), 120, 0.1)


@pytest.mark.timeout(900)
def test_a_forced_copy_goes_on_by_post_copy(two_hosts, user, guest, ssh_key):
    server_id, address = guest
    source = two_hosts.host_of(server_id)
    other = two_hosts.other(source)
    two_hosts.ssh(ssh_key, address, "head -c 20000000 /dev/urandom > /dev/shm/data")
    digest, before = two_hosts.ssh(ssh_key, address, "md5sum /dev/shm/data"), _uptime(two_hosts, ssh_key, address)
    assert digest
    _by_post_copy(user, server_id, source, 10)      # slow enough for the daemon to see it
    user.wait(server_id, "ACTIVE", 240)
    assert two_hosts.host_of(server_id) is other
    assert two_hosts.where(server_id) == {other.name[-1]: "running"}
    wait_for("nothing to be left", lambda: source.left() == {}, 60)
    assert two_hosts.wait_ssh(ssh_key, address, "md5sum /dev/shm/data; rm /dev/shm/data") == digest
    assert _uptime(two_hosts, ssh_key, address) > before
    assert not GuestDirectory(other.instances, server_id).record.post_copy
    log = two_hosts.processes[f"compute-{source.name[-1]}"].log.read_text()
    assert f"live migration: the guest runs on at {other.address}" in log


@pytest.mark.long
@pytest.mark.timeout(900)
def test_half_a_guest_never_runs_again(two_hosts, user, guest, ssh_key, kept):
    """The way between the hosts breaks while memory follows, and then the destination's half dies: what there is are the disks,
    which are the destination's by now. Meanwhile no daemon is there to have the copy taken up: libvirt 9 never lets go of its
    lock on a guest whose process ends in the middle of that."""
    server_id, address = guest
    source = two_hosts.host_of(server_id)
    daemon, other = two_hosts.processes[f"compute-{source.name[-1]}"], two_hosts.other(source)
    _by_post_copy(user, server_id, source, 1)
    wait_for("the guest to go on", lambda: _memory(other, server_id) == "running (post-copy)", 120, 0.1)
    daemon.kill()
    source.virsh("domjobabort", server_id, "--postcopy")
    wait_for("the break", lambda: _memory(source, server_id) == "paused (post-copy failed)", 120, 0.2)
    assert user.server(server_id)["OS-EXT-STS:task_state"] == "migrating"
    other.virsh("destroy", server_id, check=False)      # QEMU may have ended by itself
    daemon.start()
    user.wait(server_id, "ERROR", 240)
    assert two_hosts.host_of(server_id) is other
    assert two_hosts.where(server_id) in ({}, {other.name[-1]: "shut off"})
    wait_for("nothing to be left", lambda: source.left() == {}, 60)
    user.action(server_id, "reboot", {"type": "HARD"})
    wait_for("the boot", lambda: user.server(server_id)["status"] == "ACTIVE", 120)
    _same_guest(two_hosts, guest, ssh_key, kept, other)


@pytest.mark.parametrize("status", ["ACTIVE", pytest.param("PAUSED", marks=pytest.mark.long)])
def test_a_daemon_killed_during_the_copy(two_hosts, user, guest, ssh_key, status):
    """The copy is libvirt's: it goes on, and whoever is started anew finds out where the guest is; a paused one after it has
    come."""
    server_id, address = guest
    before = _uptime(two_hosts, ssh_key, address)
    source = two_hosts.host_of(server_id)
    daemon, other = two_hosts.processes[f"compute-{source.name[-1]}"], two_hosts.other(source)
    if status == "PAUSED":
        user.action(server_id, "pause")
        user.wait(server_id, status, 60)
    _slow(source, server_id, 8)
    _migrate(user, server_id)
    _copying(user, server_id)
    daemon.kill()
    if status == "PAUSED":
        wait_for("the copy to end", lambda: two_hosts.where(server_id) == {other.name[-1]: "paused"}, 240, 0.5)
    daemon.start()
    user.wait(server_id, status, 240)
    now = two_hosts.host_of(server_id)
    assert two_hosts.where(server_id) == {now.name[-1]: "running" if status == "ACTIVE" else "paused"}
    wait_for("nothing to be left", lambda: two_hosts.other(now).left() == {}, 60)
    if status == "PAUSED":
        assert now is other
        user.action(server_id, "unpause")
        user.wait(server_id, "ACTIVE", 60)
    two_hosts.wait_ssh(ssh_key, address)
    assert _uptime(two_hosts, ssh_key, address) > before
    if now is source:
        _slow(source, server_id, 0)


def test_a_guest_that_came_paused_does_not_leave_before_it_ran(two_hosts, user, guest, ssh_key):
    """QEMU ends itself when it copies such a guest, or resizes one of its disks."""
    server_id, address = guest
    before, source = _uptime(two_hosts, ssh_key, address), two_hosts.host_of(server_id)
    there = two_hosts.other(source)
    user.action(server_id, "pause")
    user.wait(server_id, "PAUSED", 60)
    _migrate(user, server_id)
    user.wait(server_id, "PAUSED", 240)
    assert two_hosts.where(server_id) == {there.name[-1]: "paused"}
    for host in (None, source.name):
        wanted = {"os-migrateLive": {"host": host, "block_migration": "auto"}}
        said = user.request("POST", f"/servers/{server_id}/action", "2.30", json=wanted)    # which waits for the checks
        assert (said.status_code, "unpause it first" in said.text) == (400, True), said.text
        user.wait(server_id, "PAUSED", 60)
    assert two_hosts.where(server_id) == {there.name[-1]: "paused"}
    user.action(server_id, "unpause")
    user.wait(server_id, "ACTIVE", 60)
    two_hosts.wait_ssh(ssh_key, address)
    assert _uptime(two_hosts, ssh_key, address) > before
    user.action(server_id, "pause")
    user.wait(server_id, "PAUSED", 60)
    _migrate(user, server_id)
    user.wait(server_id, "PAUSED", 240)
    assert two_hosts.where(server_id) == {source.name[-1]: "paused"}
    user.action(server_id, "unpause")
    user.wait(server_id, "ACTIVE", 60)
    assert _uptime(two_hosts, ssh_key, address) > before


@pytest.mark.timeout(900)
def test_a_guest_from_a_shelf_moves_with_what_its_image_brought(two_hosts, user, guest, ssh_key, kept):
    """Its disk stands on the image of its shelf, not on the server's; the second time it stands alone."""
    server_id, address = guest
    user.action(server_id, "shelve")
    user.wait(server_id, "SHELVED_OFFLOADED", 120)
    user.action(server_id, "unshelve")
    user.wait(server_id, "ACTIVE", 120)
    source = two_hosts.host_of(server_id)
    assert not _flat(source, server_id).endswith(user.server(server_id)["image"]["id"])
    for host in (two_hosts.other(source), source):
        two_hosts.wait_ssh(ssh_key, address, "head -c 1000000 /dev/urandom > /root/later; sync; echo done")
        later = two_hosts.ssh(ssh_key, address, "sha256sum /root/later")
        _migrate(user, server_id)
        user.wait(server_id, "ACTIVE", 240)
        assert two_hosts.wait_ssh(ssh_key, address, "echo 3 > /proc/sys/vm/drop_caches; sha256sum /root/later") == later
        _same_guest(two_hosts, guest, ssh_key, kept, host)
        run("qemu-img", "check", "-U", str(host.instances / server_id / "disk"))
    wait_for("nothing to be left", lambda: two_hosts.other(source).left() == {}, 60)


def test_an_evacuated_guest_is_removed_from_the_host_that_returns(two_hosts, user, guest):
    """The worst case: only the daemon is dead, and the guest runs on."""
    server_id, address = guest
    source = two_hosts.host_of(server_id)
    other = two_hosts.other(source)
    daemon = two_hosts.processes[f"compute-{source.name[-1]}"]
    evacuate = {"json": {"evacuate": {"host": other.name}}, "version": "2.94"}
    path = f"/servers/{server_id}/action"
    assert "still in use" in user.request("POST", path, **evacuate).text
    daemon.kill()
    wait_for("the host to be down", lambda: user.request("POST", path, **evacuate).status_code == 200, 120, 1)
    assert user.wait(server_id, "ACTIVE", 240)["addresses"]["private"][0]["addr"] == address
    assert two_hosts.host_of(server_id) is other
    daemon.start()
    wait_for("the old guest to go", lambda: two_hosts.where(server_id) == {other.name[-1]: "running"}, 120, 1)
    wait_for("what was of it to go", lambda: source.left() == {}, 60, 1)
    assert user.ok("GET", f"/os-migrations?instance_uuid={server_id}&migration_type=evacuation")["migrations"][0][
        "status"] == "done"
