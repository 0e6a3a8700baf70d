"""What libvirt says of a machine's PCI devices."""
import pytest

from nova_lite.objects.hardware.pci import PHYSICAL, STANDARD, VIRTUAL, PciDevice
from nova_lite.virt.libvirt import node_devices
from nova_lite.virt.libvirt.connection import Connection

_BASE = """<device><name>pci_x</name><parent>computer</parent><capability type='pci'><class>0x020000</class>
<domain>0</domain><bus>{bus}</bus><slot>{slot}</slot><function>{function}</function>
<product id='{product}'>A thing</product><vendor id='0x8086'>A maker</vendor>{more}
<iommuGroup number='16'><address domain='0x0000' bus='0x04' slot='0x00' function='0x0'/></iommuGroup></capability></device>"""
_PARTS = ("<capability type='virt_functions' maxCount='{0}'>"
          "<address domain='0x0000' bus='0x04' slot='0x02' function='0x0'/></capability>")
_PARENT = "<capability type='phys_function'><address domain='0x0000' bus='0x04' slot='0x00' function='0x0'/></capability>"


@pytest.mark.parametrize(("bus", "slot", "function", "product", "more", "device"), [
    (3, 0, 0, "0x1eb8", "<numa node='1'/>", PciDevice("0000:03:00.0", "8086", "1eb8", STANDARD, 1)),
    (4, 0, 0, "0x1572", _PARTS.format(64), PciDevice("0000:04:00.0", "8086", "1572", PHYSICAL)),
    (4, 0, 1, "0x1572", "<capability type='virt_functions' maxCount='0'/>", PciDevice("0000:04:00.1", "8086", "1572")),
    (4, 2, 7, "0x154c", _PARENT, PciDevice("0000:04:02.7", "8086", "154c", VIRTUAL, parent="0000:04:00.0")),
    (175, 16, 0, "0x00aa", "", PciDevice("0000:af:10.0", "8086", "00aa"))])
def test_what_kind_of_device_it_is(bus, slot, function, product, more, device):
    assert node_devices.parse(_BASE.format(bus=bus, slot=slot, function=function, product=product, more=more)) == device


def test_a_machine_without_any():
    pytest.importorskip("libvirt")
    connection = Connection("test:///default")
    connection.open()
    assert node_devices.all_pci(connection) == []
    connection.close()
