"""Snapshots of a real QEMU guest whose file systems its agent freezes: the tiny guest runs Debian's qemu-ga."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import GuestFiles
from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost
from tests.support.process import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")
AGENT, REQUIRED = {"hw_qemu_guest_agent": "yes"}, {"os_require_quiesce": "yes"}


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt"), hostname="node-quiet") as host:
        yield host


@pytest.fixture(scope="module")
def conf(hypervisor, tmp_path_factory):
    return nova_lite.conf.load([], config_files=[], state_path=str(tmp_path_factory.mktemp("state")),
                               libvirt__connection_uri=hypervisor.uri)


@pytest.fixture
def driver(conf):
    made = _started(conf)
    yield made
    made.stop_host()


def _started(conf):
    made = virt_driver.load(conf, "node-quiet")
    made.init_host(lambda *_news: None)
    return made


def _instance(number, properties):
    image = ImageMeta(str(uuid.uuid4()), properties=properties)
    return Instance(uuid=str(uuid.uuid4()), id=number, project_id="p", user_id="u", display_name="one", host="node-quiet",
                    flavor=Flavor("1", "tiny", 128, 1, 1), image_ref=image.id, image=image)


@pytest.fixture(scope="module")
def booted(conf, hypervisor):
    """A guest whose agent answers."""
    driver, guest = _started(conf), _instance(1, AGENT)
    try:
        driver.spawn(guest, [], GuestFiles(), lambda _image, path: shutil.copyfile(tiny_image(), path))
        wait_for("the agent", lambda: _agent(hypervisor, guest, "guest-ping") is not None, 300, 1)
        wait_for("the login prompt", lambda: "login:" in driver.console_output(guest, None), 300, 0.5)
        yield guest
    finally:
        driver.destroy(guest, [])
        driver.stop_host()


def _with(guest, *properties):
    merged = {key: value for one in properties for key, value in one.items()}
    return dataclasses.replace(guest, image=dataclasses.replace(guest.image, properties=merged))


def _virsh(hypervisor, *arguments):
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, *arguments], capture_output=True, text=True, check=False)


def _agent(hypervisor, guest, command, **arguments):
    """What the guest's agent answers; None when it does not."""
    said = _virsh(hypervisor, "qemu-agent-command", guest.uuid, json.dumps({"execute": command, "arguments": arguments}))
    return json.loads(said.stdout)["return"] if said.returncode == 0 else None


def _is_clean(copy, tmp_path):
    """Whether the file system of a copy was at rest: its journal holds nothing that is still to be done."""
    raw = tmp_path / "raw"
    subprocess.run(["qemu-img", "convert", "-f", copy.disk_format, "-O", "raw", copy.path, raw], check=True)
    said = subprocess.run(["dumpe2fs", "-h", raw], capture_output=True, text=True, check=True).stdout
    assert "tinyroot" in said
    return "needs_recovery" not in said


def _marks(conf, guest):
    directory = pathlib.Path(conf.state_path, "instances", guest.uuid)
    return sorted(path.name for path in directory.iterdir() if path.name in ("frozen", "snapshot.part"))


@pytest.mark.parametrize(("properties", "clean"), [((AGENT, REQUIRED), True), ((AGENT,), True), ((), False)])
def test_a_copy_is_of_file_systems_at_rest(driver, conf, hypervisor, booted, tmp_path, properties, clean):
    with driver.snapshot(_with(booted, *properties)) as copy:
        # they go on while the copy is read
        assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "thawed"
        assert _is_clean(copy, tmp_path) is clean
    assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "thawed"
    assert _marks(conf, booted) == []


def test_a_guest_whose_volumes_get_snapshots_stands_still_so_long(driver, conf, hypervisor, booted):
    asked = _with(booted, AGENT)
    for _ in range(2):      # the second finds what the first, which died, has frozen
        driver.quiesce(asked)
        assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "frozen"
    for _ in range(2):
        driver.unquiesce(asked)
        assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "thawed"
    assert _marks(conf, booted) == []
    with pytest.raises(exception.QemuGuestAgentNotEnabled):
        driver.quiesce(_with(booted))


def test_what_a_killed_run_froze_the_next_one_thaws(driver, conf, hypervisor, booted, tmp_path):
    directory = pathlib.Path(conf.state_path, "instances", booted.uuid)
    for comes_next in ("snapshot", "start"):
        (directory / "frozen").touch()
        (directory / "snapshot.part").write_text("half of it")
        assert _virsh(hypervisor, "domfsfreeze", booted.uuid).returncode == 0
        assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "frozen"
        if comes_next == "snapshot":
            with driver.snapshot(_with(booted, AGENT, REQUIRED)) as copy:
                assert _is_clean(copy, tmp_path)
        else:
            _started(conf).stop_host()
        assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "thawed"
        assert _marks(conf, booted) == []


def test_a_guest_that_stops_frozen_goes_on_when_it_runs_again(driver, conf, hypervisor, booted):
    asked = _with(booted, AGENT)
    driver.quiesce(asked)
    driver.pause(asked)
    driver.unpause(asked)
    assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "thawed"
    assert _marks(conf, booted) == []
    driver.quiesce(asked)
    driver.suspend(asked)
    driver.unquiesce(asked)             # as whoever wanted it quiet
    _started(conf).stop_host()          # and the daemon when it starts
    assert _marks(conf, booted) == ["frozen"]
    driver.resume(asked, [])
    assert _agent(hypervisor, booted, "guest-fsfreeze-status") == "thawed"
    assert _marks(conf, booted) == []


def test_a_job_that_a_killed_run_left_ends_when_the_daemon_starts(driver, conf, hypervisor, booted, tmp_path):
    """One in pull mode stands for it: it never ends by itself."""
    directory = pathlib.Path(conf.state_path, "instances", booted.uuid)
    job = tmp_path / "job.xml"
    job.write_text(f"<domainbackup mode='pull'><server transport='unix' socket='/tmp/nl-{booted.uuid}'/><disks>"
                   f"<disk name='vda' backup='yes' type='file'><scratch file='{directory / 'snapshot.part'}'/></disk></disks>"
                   "</domainbackup>")
    assert _virsh(hypervisor, "backup-begin", booted.uuid, str(job)).returncode == 0
    assert "Backup" in _virsh(hypervisor, "domjobinfo", booted.uuid).stdout
    _started(conf).stop_host()
    assert "None" in _virsh(hypervisor, "domjobinfo", booted.uuid).stdout
    assert _marks(conf, booted) == []


def test_an_agent_that_is_not_there_or_says_nothing(driver, conf, hypervisor, booted, tmp_path):
    def refused(guest, error, text):
        with pytest.raises(error, match=text), driver.snapshot(guest):
            pass
        assert _marks(conf, guest) == []
        assert "None" in _virsh(hypervisor, "domjobinfo", guest.uuid).stdout

    def copied(guest):
        with driver.snapshot(guest) as copy:
            assert os.path.getsize(copy.path)
        assert _marks(conf, guest) == []
    refused(_with(booted, REQUIRED), exception.QemuGuestAgentNotEnabled, "agent is not enabled")
    hang = _agent(hypervisor, booted, "guest-exec", path="/bin/sh", arg=["-c", "kill -STOP $(pidof qemu-ga)"])
    assert hang["pid"]
    wait_for("silence", lambda: _agent(hypervisor, booted, "guest-ping") is None, 30, 1)
    refused(_with(booted, AGENT, REQUIRED), exception.InstanceQuiesceFailed, "Failed to quiesce instance")
    copied(_with(booted, AGENT))
    driver.pause(booted)        # one that does not run cannot be asked
    copied(_with(booted, AGENT, REQUIRED))
    driver.power_off(booted, 0)
    copied(_with(booted, AGENT, REQUIRED))
    assert driver.power_state(booted) == states.SHUTDOWN
