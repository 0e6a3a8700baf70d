"""Fixtures of the integration tests."""
from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile

import pytest

# what a tour asserts is told as a test's own asserts are
pytest.register_assert_rewrite("tests.support.compute_tour", "tests.support.host_tour", "tests.support.neighbour_tour")

from tests.guest import tiny_image  # noqa: E402
from tests.support.bridge_host import at, metadata  # noqa: E402,F401
from tests.support.engines import MariaDB, RabbitMQ  # noqa: E402
from tests.support.neighbours import neighbours  # noqa: E402,F401
from tests.support.two_hosts import TwoHosts  # noqa: E402

DISKS_KEY = "5ec2e7" * 10 + "0f0e"      # of the servers whose disks are encrypted


@pytest.fixture(scope="session")
def userfaultfd():
    """QEMU that is not root's may hear of the first touch of a page, which post-copy needs: see docs/operators.md."""
    switch = pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd")
    before = switch.read_text()
    switch.write_text("1")
    yield
    switch.write_text(before)


@pytest.fixture(scope="module")
def passable():
    """A directory that QEMU's own user may pass through."""
    with tempfile.TemporaryDirectory(prefix="nlvirt-") as name:
        os.chmod(name, 0o711)
        yield pathlib.Path(name)


@pytest.fixture(scope="session")
def two_hosts(tmp_path_factory, userfaultfd):
    """Two libvirt hosts, real broker and database, the tiny image, one tenant network across both. Memory and disks of guests
    that run travel by TLS only; those of the walk (tests/chaos) travel plain."""
    directory = tmp_path_factory.mktemp("two")
    rabbit, maria = RabbitMQ(directory / "rabbitmq", "0.0.0.0"), MariaDB(directory / "mariadb")  # noqa: S104
    cloud = None
    try:
        rabbit.start()
        maria.start()
        cloud = TwoHosts(directory / "cloud", rabbit, maria.new_database(), tls=True, conductor__lease_seconds=9,
                         conductor__sweep_interval=2, conductor__max_attempts=20, compute__report_interval=3,
                         compute__service_down_time=15, compute__sync_power_state_interval=5,
                         libvirt__live_migration_permit_post_copy=True, key_manager__fixed_key=DISKS_KEY,
                         key_manager__backend="nova.keymgr.conf_key_mgr.ConfKeyManager")
        cloud.start().add_image(tiny_image())
        yield cloud
    finally:
        if cloud is not None:
            cloud.stop()
        rabbit.close()
        maria.close()


@pytest.fixture(scope="session")
def ssh_key(tmp_path_factory) -> pathlib.Path:
    """The private key of a user of guests; its public half lies beside it."""
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path
