"""libvirt's statistics as Diagnostics."""
import datetime
import uuid

import pytest

from nova_lite import exception, units
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt.libvirt import diagnostics
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.guest import Guest

# what a QEMU of libvirt 10 tells of a guest with a disk, a config drive and a nic
STATS = {
    "state.state": 1, "state.reason": 1, "balloon.current": 524288, "balloon.maximum": 1048576, "balloon.rss": 300000,
    "vcpu.current": 1, "vcpu.maximum": 2, "vcpu.0.state": 1, "vcpu.0.time": 17300000000, "net.count": 1,
    "net.0.name": "tapaaaa",
    "net.0.rx.bytes": 1, "net.0.rx.pkts": 2, "net.0.rx.errs": 3, "net.0.rx.drop": 4, "net.0.tx.bytes": 5, "net.0.tx.pkts": 6,
    "net.0.tx.errs": 7, "net.0.tx.drop": 8, "block.count": 2, "block.0.name": "vda", "block.0.rd.reqs": 10,
    "block.0.rd.bytes": 11, "block.0.wr.reqs": 12, "block.0.wr.bytes": 13, "block.0.errors": 0, "block.1.name": "sda"}


def _instance(**values):
    vif = VIF("p", "n", "net", "fa:16:3e:00:00:01", "bridge", devname="tapaaaa")
    return Instance(str(uuid.uuid4()), "p", "u", "s", Flavor("1", "f", 512, 1, 1), network_info=[vif], **values)


def test_all_of_them():
    launched = units.utcnow() - datetime.timedelta(hours=1)
    found = diagnostics.make(STATS, _instance(launched_at=launched, config_drive=True), "kvm")
    assert (found.state, found.driver, found.hypervisor, found.config_drive) == ("running", "libvirt", "kvm", True)
    assert (found.memory_maximum, found.memory_used, found.memory) == (1024, 512, {"rss": 300000})
    assert 3600 <= found.uptime < 3660
    assert found.cpus == [{"id": 0, "time": 17300000000, "utilisation": None}]      # the second one is not plugged in
    assert found.disks == [
        {"name": "vda", "read_bytes": 11, "read_requests": 10, "write_bytes": 13, "write_requests": 12, "errors_count": 0},
        {"name": "sda", "read_bytes": None, "read_requests": None, "write_bytes": None, "write_requests": None,
         "errors_count": None}]
    assert found.nics == [{"name": "tapaaaa", "mac_address": "fa:16:3e:00:00:01", "rx_octets": 1, "rx_packets": 2,
                           "rx_errors": 3, "rx_drop": 4, "rx_rate": None, "tx_octets": 5, "tx_packets": 6, "tx_errors": 7,
                           "tx_drop": 8, "tx_rate": None}]


def test_a_hypervisor_that_counts_nothing():
    found = diagnostics.make({"state.state": 5}, _instance(), "qemu")
    assert (found.state, found.memory_maximum, found.uptime, found.cpus, found.disks, found.nics) == (
        "shutdown", None, None, [], [], [])


def test_statistics_of_a_domain_of_libvirt():
    pytest.importorskip("libvirt")
    connection = Connection("test:///default")
    connection.open()
    try:
        domain = connection.run(lambda c: c.lookupByName("test").UUIDString())
        assert Guest(connection, domain).statistics()["state.state"] == 1
        with pytest.raises(exception.VirtDriverError, match="omain"):
            Guest(connection, str(uuid.uuid4())).statistics()
    finally:
        connection.close()
