"""Guests that are bound to parts of their host: what libvirt tells of it, and that no part is given away twice."""
import threading

import pytest

from nova_lite import exception
from nova_lite.virt.libvirt.bindings import Bindings
from nova_lite.virt.libvirt.files import ASIDE, GuestDirectory
from nova_lite.virt.libvirt.host_cells import of_capabilities

from .builders import instance

CAPABILITIES = """<capabilities><host><topology><cells num="2">
<cell id="0"><memory unit="KiB">4194304</memory><pages unit="KiB" size="4">524288</pages>
 <pages unit="KiB" size="2048">1024</pages><pages unit="KiB" size="1048576">0</pages>
 <cpus num="4"><cpu id="0" siblings="0,2"/><cpu id="1" siblings="1,3"/>
  <cpu id="2" siblings="0,2"/><cpu id="3" siblings="1,3"/></cpus>
</cell>
<cell id="1"><memory unit="KiB">4194304</memory><cpus num="0"/></cell></cells></topology></host></capabilities>"""
PINNED = {"hw:cpu_policy": "dedicated"}


def test_capabilities_tell_cpus_threads_memory_and_huge_pages():
    (cell,) = of_capabilities(CAPABILITIES)
    assert (cell.number, cell.cpus, cell.memory_mb) == (0, (0, 1, 2, 3), 4096)
    assert (cell.siblings, cell.pages) == (((0, 2), (1, 3)), {2048: 1024})
    assert of_capabilities("<capabilities><host/></capabilities>") == []


def _bind(bindings, root, uuid, specs=PINNED, **values):
    made = instance(specs, uuid=uuid, **values)
    return bindings.bind(made, GuestDirectory(root, uuid), of_capabilities(CAPABILITIES))


def test_a_place_is_kept_until_the_guest_is_gone(tmp_path):
    bindings = Bindings(tmp_path, "one")
    assert [dict(cell.pins) for cell in _bind(bindings, tmp_path, "a", vcpus=3)] == [{0: "0", 1: "1", 2: "2"}]
    assert _bind(bindings, tmp_path, "a", vcpus=3)                   # when it starts again
    with pytest.raises(exception.BuildFailed, match="no NUMA nodes of the host"):
        _bind(Bindings(tmp_path, "one"), tmp_path, "b", vcpus=2)    # also for the daemon that comes after
    (tmp_path / "a").rename(tmp_path / f"a{ASIDE}")                 # a resize that may yet go back
    with pytest.raises(exception.BuildFailed):
        _bind(bindings, tmp_path, "b", vcpus=2)
    GuestDirectory(tmp_path, f"a{ASIDE}").remove()
    assert _bind(bindings, tmp_path, "b", vcpus=2)


def test_hosts_that_share_their_directories_count_their_own(tmp_path):
    _bind(Bindings(tmp_path, "one"), tmp_path, "a", vcpus=4)
    assert _bind(Bindings(tmp_path, "two"), tmp_path, "b", vcpus=4)


def test_a_guest_that_floats_gives_its_place_back(tmp_path):
    bindings = Bindings(tmp_path, "one")
    _bind(bindings, tmp_path, "a", vcpus=4)
    assert _bind(bindings, tmp_path, "a", specs={}, vcpus=4) == ()
    assert [cell.pinned for cell in bindings.in_use(of_capabilities(CAPABILITIES))] == [frozenset()]


def test_builds_at_the_same_moment_get_different_cpus(tmp_path):
    bindings, found = Bindings(tmp_path, "one"), []
    threads = [threading.Thread(target=lambda n=n: found.append(_bind(bindings, tmp_path, f"g{n}", vcpus=1))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(cell.pins[0] for (cell,) in found) == ["0", "1", "2", "3"]
