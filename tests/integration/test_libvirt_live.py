"""A running guest goes from one libvirtd to another: two drivers, each with its own daemon, through their interface.

Guests have an empty disk with a pattern in it, so nothing boots and all is fast; see test_two_hosts.py for guests that live.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.guest_moves import Plan
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt.driver import GuestFiles
from tests.libvirt_host import LibvirtHost, started

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")
HOSTS = ("one", "two")


@pytest.fixture(scope="module")
def directory():
    """One that QEMU's own user may pass through."""
    with tempfile.TemporaryDirectory(prefix="nllive-") as name:
        os.chmod(name, 0o711)
        yield pathlib.Path(name)


@pytest.fixture(scope="module")
def daemons(directory):
    one, two = (LibvirtHost(directory / f"libvirt-{name}", hostname=name) for name in HOSTS)
    with one, two:
        yield [one, two]


@pytest.fixture
def shared(request):
    """Whether both hosts have the same directory of guests."""
    return getattr(request, "param", False)


@pytest.fixture
def states_of(directory, tmp_path, shared):
    """Where each host keeps what it has."""
    found = [directory / tmp_path.name / name for name in HOSTS]
    for path in found:
        path.mkdir(parents=True)
        if shared:
            (path.parent / "shared").mkdir(exist_ok=True)
            (path / "instances").symlink_to(path.parent / "shared")
    return found


@pytest.fixture
def drivers(daemons, states_of):
    confs = {name: nova_lite.conf.load([], config_files=[], state_path=str(state), libvirt__connection_uri=daemon.uri,
                                       libvirt__live_migration_uri=daemon.uri, libvirt__migration_address="127.0.0.1")
             for name, daemon, state in zip(HOSTS, daemons, states_of, strict=True)}
    with started(confs) as made:
        yield made


@pytest.fixture
def fetch(tmp_path):
    image = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "16M"], check=True)
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 5 0 1M", image], check=True, capture_output=True)
    return lambda _image_id, path: shutil.copyfile(image, path)


@pytest.fixture
def instance(drivers, fetch, states_of):
    """It runs on the first host. Its disk has what its image brought, and a megabyte of its own."""
    meta = ImageMeta(str(uuid.uuid4()))
    made = Instance(uuid=str(uuid.uuid4()), id=1, project_id="p", user_id="u", display_name="mover",
                    flavor=Flavor("1", "tiny", 96, 1, 1, ephemeral_gb=1), image_ref=meta.id, image=meta, config_drive=True)
    drivers[0].spawn(made, [], GuestFiles(metadata={"openstack/latest/meta_data.json": b"{}"}), fetch)
    drivers[0].power_off(made, 0)
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 7 1M 1M", _disk(states_of[0], made)], check=True,
                   capture_output=True)
    drivers[0].power_on(made, [])
    yield made
    for one in drivers:
        one.destroy(made, [])


def _disk(state, instance):
    return state / "instances" / instance.uuid / "disk"


def _is_whole(path):
    """The disk has what the image brought and what the guest wrote."""
    command = ["qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -P 5 0 1M", "-c", "read -P 7 1M 1M", path]
    return "Pattern verification failed" not in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _base(path):
    out = subprocess.run(["qemu-img", "info", "-U", path], check=True, capture_output=True, text=True).stdout
    return next((line.split(": ")[1].split(" (")[0] for line in out.splitlines() if line.startswith("backing file:")), None)


def _go(source, there, instance, fetch, block=None):
    facts = source.live.facts(instance)
    plan = there.live.check(instance, facts, block, True)
    prepared = there.live.prepare(instance, [], plan, source.live.offer(instance, plan), fetch)
    plan = Plan.from_primitive(prepared.to_primitive())     # as the source gets it
    assert source.live.copy(instance, plan, lambda _progress: None, lambda: True) is None
    assert there.live.wait(instance, lambda: time.sleep(0.1))
    assert there.live.arrive(instance, [], plan) == states.RUNNING
    source.live.leave(instance, [], plan)
    assert (source.power_state(instance), there.power_state(instance)) == (None, states.RUNNING)
    return plan


@pytest.mark.parametrize("is_deleted", [False, True])
def test_disks_come_along_also_where_their_image_is_deleted(drivers, instance, fetch, states_of, is_deleted):
    """Then the other host has no copy of it, and all of the disk is copied."""
    def gone(image_id, _path):
        raise exception.ImageNotFound(image_id=image_id)
    log = [_disk(state, instance).with_name("console.log") for state in states_of]
    with open(log[0], "a") as stream:
        stream.write("said before the move\n")
    plan = _go(*drivers, instance, gone if is_deleted else fetch)
    assert log[1].read_text().endswith("said before the move\n")       # what the guest says from now on is appended
    disk = _disk(states_of[1], instance)
    assert (plan.block, [one["whole"] for one in plan.disks]) == (True, [is_deleted, False])
    assert (_is_whole(disk), _base(disk)) == (True, None if is_deleted else str(disk.parents[1] / "_base" / instance.image.id))
    assert not _disk(states_of[0], instance).parent.exists()
    drivers[1].power_off(instance, 0)
    drivers[1].power_on(instance, [])       # it can be started again where it is
    assert _is_whole(disk)


@pytest.mark.parametrize("shared", [True], indirect=True)
def test_files_that_both_hosts_see_stay(drivers, instance, fetch, states_of):
    disk = _disk(states_of[1], instance)
    before = disk.stat().st_ino
    with pytest.raises(exception.InvalidLocalStorage):
        drivers[1].live.check(instance, drivers[0].live.facts(instance), True, True)
    for source, there, block in ((*drivers, None), (*reversed(drivers), False)):
        plan = _go(source, there, instance, fetch, block)
        assert (plan.shared, plan.block) == (True, False)
        assert (disk.stat().st_ino, _is_whole(disk)) == (before, True)
    drivers[0].power_off(instance, 0)
    drivers[0].power_on(instance, [])
    assert _is_whole(disk)
