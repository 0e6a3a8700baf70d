"""The disks of a guest while it is rescued. Pure, as ``guest_config``.

By default the rescue disk takes the place of the root disk, which becomes the second disk, and all other disks are detached.
With hw_rescue_device or hw_rescue_bus of the image, the rescue disk is added to the present disks (a "stable" rescue): their
names do not change, and the guest boots from the added one.
"""
from __future__ import annotations

import dataclasses

from lxml import etree

from nova_lite import exception
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt import device_names
from nova_lite.virt.libvirt.config import Disk, GuestConfig
from nova_lite.virt.libvirt.files import GuestDirectory, image_name
from nova_lite.virt.libvirt.guest_config import HostFacts, luks_secret, placed

DEVICES = ("disk", "cdrom")


def is_stable(image: ImageMeta) -> bool:
    """Whether the image is to be added to the guest's disks, rather than to take the place of its root disk."""
    return any(image.properties.get(name) for name in ("hw_rescue_device", "hw_rescue_bus"))


def is_rescued(xml: str, files: GuestDirectory) -> bool:
    """Whether a domain, by libvirt's XML (empty: there is none), has the rescue disk."""
    sources = etree.fromstring(xml).findall("devices/disk/source") if xml else []
    return any(source.get("file") == str(files.rescue_disk)
               or source.get("name", "").rpartition("/")[2] == image_name(files.rescue_disk) for source in sources)


def rescued(config: GuestConfig, instance: Instance, image: ImageMeta, files: GuestDirectory, host: HostFacts) -> GuestConfig:
    """The guest of ``config`` as it is rescued. Raises InstanceNotRescuable for what the image asks and cannot be had."""
    disks = tuple(dataclasses.replace(disk, path=str(files.rescue_config_drive)) if disk.path == str(files.config_drive)
                  else disk for disk in config.disks)
    if is_stable(image):
        return dataclasses.replace(config, disks=_added(instance, image, files, host, disks))
    return dataclasses.replace(config, disks=_in_place(instance, files, host, disks))


def _added(instance: Instance, image: ImageMeta, files: GuestDirectory, host: HostFacts, disks: tuple[Disk, ...]) -> tuple[
        Disk, ...]:
    device = str(image.properties.get("hw_rescue_device") or "disk").lower()
    bus = str(image.properties.get("hw_rescue_bus") or ("sata" if device == "cdrom" else device_names.DEFAULT_BUS)).lower()
    if device not in DEVICES or bus not in device_names.PREFIXES:
        raise exception.InstanceNotRescuable(
            instance_id=instance.uuid, reason=f"image {image.id} asks for hw_rescue_device={device} and hw_rescue_bus={bus}; "
            f"this host offers {', '.join(DEVICES)} on {', '.join(device_names.PREFIXES)}")
    target = device_names.next_free(bus, [disk.target for disk in disks])
    rescue = placed(Disk("", target, bus, host.disk_format, device, host.cache_mode, boot_order=1,
                         luks_secret=luks_secret(instance, host)), files.rescue_disk, host)
    others = [dataclasses.replace(d, boot_order=d.boot_order + 1 if d.boot_order else None) for d in disks]
    return (*others, rescue)


def _in_place(instance: Instance, files: GuestDirectory, host: HostFacts, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    root = next((disk for disk in disks if disk.path == str(files.disk)), None)
    if root is None:
        raise exception.InstanceNotRescuable(instance_id=instance.uuid, reason="it boots from a volume, so the image must say "
                                             "by hw_rescue_device or hw_rescue_bus how it is to be added")
    drives = [disk for disk in disks if disk.path == str(files.rescue_config_drive)]
    second = device_names.next_free(root.bus, [root.target, *(drive.target for drive in drives)])
    return (dataclasses.replace(placed(root, files.rescue_disk, host), boot_order=None),
            dataclasses.replace(root, target=second, boot_order=None), *drives)
