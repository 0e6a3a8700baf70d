"""Servers as the tests of this directory need them."""
import datetime

from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FixedIP
from nova_lite.virt.libvirt.guest_config import HostFacts

UUID = "11111111-2222-3333-4444-555555555555"
IMAGE = "a0000000-0000-4000-8000-00000000000a"
KVM = HostFacts("kvm", cpu_mode="host-model", listen="127.0.0.1", graphics=("vnc",), secure_boot=True,
                tpm_versions=("2.0",))
TCG = HostFacts("qemu")


def instance(specs=None, properties=None, disk_format="qcow2", **values):
    flavor = {k: values.pop(k) for k in ("vcpus", "root_gb", "ephemeral_gb", "swap", "pci_requests") if k in values}
    made = Flavor("42", "m1.tiny", 512, **{"vcpus": 1, "root_gb": 1, **flavor}, extra_specs=specs or {})
    image = ImageMeta(IMAGE, disk_format=disk_format, properties=properties or {})
    return Instance(**{"uuid": UUID, "id": 42, "project_id": "project", "user_id": "user", "display_name": "one",
                       "flavor": made, "image_ref": IMAGE, "image": image,
                       "created_at": datetime.datetime(2026, 1, 31, 10, 20, 30), **values})


def blanks(*sizes):
    """Empty disks of the host, of so many GiB."""
    return [BlockDevice(f"{number:08d}-0000-4000-8000-0000000000eb", "blank", "local", size=size)
            for number, size in enumerate(sizes)]


def vif(number=1, **values):
    return VIF(**{"id": f"{number:08d}-0000-4000-8000-000000000000", "network_id": "n", "network_name": "private",
                  "mac_address": f"fa:16:3e:00:00:{number:02x}", "type": "bridge", "mtu": 1450,
                  "fixed_ips": [FixedIP(f"10.0.0.{number}", 4, "10.0.0.0/24")], "details": {"bridge": "nlbr1"}, **values})


def _info(kind, **data):
    return {"connection_info": {"driver_volume_type": kind, "data": data}}


RBD = _info("rbd", name="volumes/volume-1", hosts=["10.0.0.1", "[fd00::1]"], ports=["6789", "6789"], auth_enabled=True,
            auth_username="cinder", secret_uuid="457eb676-33da-42ec-9a8c-9293d545c337", discard=True)
ISCSI = _info("iscsi", target_portal="[fd00::2]:3260", target_iqn="iqn.2010-10.org.openstack:volume-2", target_lun=1,
              auth_method="CHAP", auth_username="u", secret_uuid="557eb676-33da-42ec-9a8c-9293d545c337",
              initiator="iqn.2010-10.org.openstack:nova-lite-one", access_mode="ro",
              qos_specs={"total_iops_sec": "500", "consumer": "front-end"})
NBD = _info("nbd", host="storage.example.org", export="volume-3")
FILE = _info("local", device_path="/var/lib/nova_lite/volumes/4.raw", direct_io=False, block_device=False)
BLOCK = _info("local", device_path="/dev/vg/volume-5", direct_io=True, block_device=True)

ENCRYPTION = {"provider": "luks", "encryption_key_id": "00000000-0000-0000-0000-000000000000", "cipher": "aes-xts-plain64",
              "key_size": 256, "secret_uuid": "657eb676-33da-42ec-9a8c-9293d545c337"}


def volume(number=1, **values):
    values = {"connection_info": None, **values}
    return BlockDevice(**{"id": f"{number:08d}-0000-4000-8000-0000000000bd", "source_type": "volume",
                          "volume_id": f"{number:08d}-0000-4000-8000-000000000001", **values})
