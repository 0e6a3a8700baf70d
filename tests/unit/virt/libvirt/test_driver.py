"""The facade on libvirt's own test driver: what stays of a guest's files when its start fails."""
import datetime

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt.driver import LibvirtDriver
from nova_lite.virt.libvirt.files import GuestDirectory, instances_root
from nova_lite.virt.libvirt.host import Host

from .builders import TCG, UUID, instance

pytest.importorskip("libvirt")


@pytest.fixture
def driver(tmp_path, monkeypatch):
    monkeypatch.setattr(Host, "_facts", lambda self, conf: TCG)     # libvirt's test driver cannot say what guests may have
    conf = nova_conf.load([], config_files=[], state_path=str(tmp_path), libvirt__connection_uri="test:///default")
    made = LibvirtDriver(conf, "h1")
    made.init_host(lambda uuid, state: None)
    yield made
    made.stop_host()


def _no_image(image_id, path):
    raise exception.ServiceUnavailable(what="Glance", reason="it does not answer")


@pytest.mark.parametrize("launched", [True, False])
def test_a_start_that_fails_costs_a_server_that_ever_ran_no_disk(driver, tmp_path, launched):
    """A rebuild has kept its ephemeral disk; of a first build nothing stays."""
    server = instance(ephemeral_gb=1, host="h1", launched_at=datetime.datetime(2026, 2, 1) if launched else None)
    files = GuestDirectory(instances_root(driver._conf), UUID)
    files.make()
    files.ephemeral.write_bytes(b"what the user has on it")
    with pytest.raises(exception.BuildFailed, match="Glance"):
        driver.spawn(server, [], GuestFiles([], None), _no_image)
    assert files.ephemeral.exists() == launched
    driver.destroy(server, [])
    assert not files.path.exists()
