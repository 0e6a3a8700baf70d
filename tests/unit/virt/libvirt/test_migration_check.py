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
