"""Whether a host can take the disks of a guest that runs elsewhere."""
import pytest

from nova_lite import exception
from nova_lite.virt.libvirt import migration_check
from nova_lite.virt.live import SourceFacts

from .builders import UUID, instance


@pytest.mark.parametrize("shared", [False, True])
def test_a_disk_of_another_format_is_refused_on_shared_storage_too(tmp_path, shared):
    """The next start of the guest would read what it wrote into its raw disk as a header."""
    there = SourceFacts("QEMU", 1, 1, disks=[{"name": f"{UUID}/disk", "size": 1, "used": 1, "format": "raw"}])
    with pytest.raises(exception.MigrationPreCheckError, match="its disk is raw, but this host makes qcow2 disks"):
        migration_check.check_storage(instance(), tmp_path, there, shared, None, False, "qcow2")
    assert migration_check.check_storage(instance(), tmp_path, there, shared, None, False, "raw") is not shared


@pytest.mark.parametrize(("theirs", "mine"), [("rbd:f/vms", ""), ("", "rbd:f/vms"), ("rbd:f/vms", "rbd:f/others")])
def test_disks_elsewhere_than_in_this_hosts_pool_are_refused_before_anything(tmp_path, theirs, mine):
    there = SourceFacts("QEMU", 1, 1, disks=[{"name": f"{UUID}/disk.eph0", "size": 1, "used": 1, "format": "raw"}], pool=theirs)
    for shared in (False, True):
        with pytest.raises(exception.MigrationPreCheckError, match="images_type"):
            migration_check.check_storage(instance(), tmp_path, there, shared, None, False, "rbd", mine)
    there.disks = []
    assert not migration_check.check_storage(instance(), tmp_path, there, False, None, False, "rbd", mine)


def test_encrypted_disks_are_not_copied_while_their_guest_runs(tmp_path):
    there = SourceFacts("QEMU", 1, 1, disks=[{"name": f"{UUID}/disk", "size": 1, "used": 1, "format": "qcow2"}])
    server = instance({"hw:ephemeral_encryption": "true"})
    with pytest.raises(exception.MigrationPreCheckError, match="migrated cold"):
        migration_check.check_storage(server, tmp_path, there, False, None, False, "qcow2")
    assert not migration_check.check_storage(server, tmp_path, there, True, None, False, "qcow2")
    there.disks = []
    assert not migration_check.check_storage(server, tmp_path, there, False, None, False, "qcow2")


def test_disks_in_this_hosts_pool_are_shared(tmp_path):
    pool = "rbd:f/vms"
    there = SourceFacts("QEMU", 1, 1, disks=[{"name": f"{UUID}/disk", "size": 1 << 60, "used": 1 << 60, "format": "rbd"}],
                        pool=pool)
    for block in (None, False):
        assert not migration_check.check_storage(instance(), tmp_path, there, False, block, False, "rbd", pool)
    with pytest.raises(exception.InvalidLocalStorage):
        migration_check.check_storage(instance(), tmp_path, there, False, True, False, "rbd", pool)
