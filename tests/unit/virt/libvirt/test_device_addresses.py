"""Addresses of devices, read from the configuration of a domain."""
from __future__ import annotations

from nova_lite.objects.block_device import BlockDevice
from nova_lite.virt.libvirt.device_addresses import addresses_of

from .builders import instance

XML = """<domain><devices>
<disk type='block' device='disk'><target dev='vdb' bus='virtio'/>
  <address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/></disk>
<disk type='block' device='disk'><target dev='sda' bus='scsi'/>
  <address type='drive' controller='0' bus='0' target='0' unit='1'/></disk>
<disk type='block' device='disk'><target dev='sdb' bus='usb'/><address type='usb' bus='0' port='2'/></disk>
<disk type='block' device='disk'><target dev='vdz' bus='virtio'/></disk>
<interface type='bridge'><mac address='FA:16:3E:00:00:01'/>
  <address type='pci' domain='0x0000' bus='0x0a' slot='0x1f' function='0x7'/></interface>
<controller type='pci'><address type='pci' domain='0' bus='0' slot='2' function='0'/></controller>
</devices></domain>"""


def test_devices_are_told_by_what_the_record_knows_them_by():
    devices = [BlockDevice("d1", "volume", volume_id="v1", device_name="/dev/vdb"),
               BlockDevice("d2", "volume", volume_id="v2", disk_bus="scsi"),
               BlockDevice("d3", "volume", volume_id="v3", disk_bus="usb")]
    assert addresses_of(XML, instance(block_devices=devices)) == {
        "d1": "0000:04:00.0", "d2": "0:0:0:1", "d3": "0:2", "fa:16:3e:00:00:01": "0000:0a:1f.7"}


def test_a_disk_of_the_hosts_own_that_the_request_has_named_is_told_by_it():
    devices = [BlockDevice("d1", "blank", "local", size=1, disk_bus="virtio"),
               BlockDevice("d2", "blank", "local", size=1, disk_bus="scsi")]
    found = addresses_of(XML, instance(ephemeral_gb=2, block_devices=devices))
    assert (found["d1"], found["d2"]) == ("0000:04:00.0", "0:0:0:1")
