"""Servers as the tests of this directory need them."""
import datetime

from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FixedIP
from nova_lite.virt.libvirt.guest_config import HostFacts

UUID = "11111111-2222-3333-4444-555555555555"
IMAGE = "a0000000-0000-4000-8000-00000000000a"
KVM = HostFacts("kvm", cpu_mode="host-model", vnc_listen="127.0.0.1")
TCG = HostFacts("qemu")


def instance(specs=None, properties=None, disk_format="qcow2", **values):
    flavor = {k: values.pop(k) for k in ("vcpus", "root_gb", "ephemeral_gb", "swap") if k in values}
    made = Flavor("42", "m1.tiny", 512, **{"vcpus": 1, "root_gb": 1, **flavor}, extra_specs=specs or {})
    image = ImageMeta(IMAGE, disk_format=disk_format, properties=properties or {})
    return Instance(**{"uuid": UUID, "id": 42, "project_id": "project", "user_id": "user", "display_name": "one",
                       "flavor": made, "image_ref": IMAGE, "image": image,
                       "created_at": datetime.datetime(2026, 1, 31, 10, 20, 30), **values})


def vif(number=1, **values):
    return VIF(**{"id": f"{number:08d}-0000-4000-8000-000000000000", "network_id": "n", "network_name": "private",
                  "mac_address": f"fa:16:3e:00:00:{number:02x}", "type": "bridge", "mtu": 1450,
                  "fixed_ips": [FixedIP(f"10.0.0.{number}", 4, "10.0.0.0/24")], "details": {"bridge": "nlbr1"}, **values})
