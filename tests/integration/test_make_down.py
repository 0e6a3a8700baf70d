"""`make down` ends a standalone cloud however its directory is spelt, and takes its guests from the system's libvirtd."""
from __future__ import annotations

import os
import pathlib
import subprocess
import uuid

import pytest

from nova_lite.virt.libvirt.connection import load_libvirt
from tests.libvirt_host import LibvirtHost
from tests.support.cloud import Standalone

ROOT = pathlib.Path(__file__).parents[2]
DOMAIN = "<domain type='qemu'><name>{0}</name><uuid>{0}</uuid><memory>8192</memory><os><type>hvm</type></os></domain>"


def down(state: object, *before: str) -> str:
    """What it says; it must succeed."""
    done = subprocess.run([*before, "make", "-s", "-C", ROOT, "down", f"STATE={state}"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_cloud_is_found_by_any_name_of_its_directory(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    cloud = Standalone(tmp_path, None, "--virt-driver", "fake", "--state-path", "link/../state/").start()
    try:
        said = down(f"{os.path.relpath(tmp_path, ROOT)}/state/")
        assert said == f"the cloud in {tmp_path}/state is down; remove the directory to forget it\n"
        assert not cloud.process.alive()
    finally:
        cloud.process.kill()


@pytest.fixture
def system(tmp_path):
    """A private libvirtd, and what runs a program where that one is the system's."""
    with LibvirtHost(tmp_path / "system") as host:
        pid = (host.directory / "run" / "libvirtd.pid").read_text().strip()
        yield host.uri, ["nsenter", f"--mount=/proc/{pid}/ns/mnt"]


def test_guests_are_unknown_to_the_systems_libvirtd_afterwards(system, tmp_path):
    uri, inside = system
    ours, others = str(uuid.uuid4()), str(uuid.uuid4())
    connection = load_libvirt().open(uri)
    try:
        for name in (ours, others):
            connection.defineXML(DOMAIN.format(name))
        (tmp_path / "cloud" / "instances" / ours).mkdir(parents=True)
        (tmp_path / "cloud" / "clouds.yaml").touch()
        down(tmp_path / "cloud", *inside)
        assert [domain.UUIDString() for domain in connection.listAllDomains()] == [others]
    finally:
        connection.close()
