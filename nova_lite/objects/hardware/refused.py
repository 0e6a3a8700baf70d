"""The hardware that Nova offers and nova_lite does not: refused by name before the server is created, never ignored."""
from __future__ import annotations

import re
from collections.abc import Mapping

from nova_lite import exception
from nova_lite.objects.hardware.asked import Asked, is_true

# extra spec or property -> why
_FLAGS = {"mem_encryption": "guests with encrypted memory are not offered", "locked_memory": "locked memory is not offered",
          "virtio_packed_ring": "packed virtqueues are not offered", "cpu_realtime": "realtime CPUs are not offered",
          "firmware_stateless": "firmware without variables is not offered"}
_VALUES = {"pmem": "persistent memory is not offered", "viommu_model": "an IOMMU is not offered",
           "maxphysaddr_mode": "the width of addresses cannot be chosen", "cpu_dedicated_mask": "there is no mixed CPU policy",
           "sound_model": "guests have no sound", "redirected_usb_ports": "USB redirection is not offered",
          "maxphysaddr_bits": "the width of addresses cannot be chosen", "usb_model": "the USB controller cannot be chosen",
          "tpm_secret_security": "the state of a TPM is not encrypted"}
# property of an image -> why
_PROPERTIES = {"hw_emulation_architecture": "guests of another architecture are not emulated",
               **dict.fromkeys(("kernel_id", "ramdisk_id"), "guests boot from their disk only")}
# what hosts are chosen by elsewhere, with the suffix of a group of resources or without; images have the same names
_OF_PLACEMENT = re.compile(r"(trait|resources)[^:]*:.+|group_policy|traits_required|capabilities:.+")
# the hypervisor of VMware has these
_OF_VMWARE = re.compile(r"quota:(cpu|memory|disk_io|vif)_(limit|reservation|shares_level|shares_share)")
# what is read as a number here; more than 20 digits are none of a guest's, and Python reads 4300 at most
_NUMBERS = re.compile(r"(hw|quota|pci_passthrough|accel)[:_]|(img_hv_requested_version|hypervisor_version_requires)$")
_TOO_LONG = re.compile(r"\d{21}")


def check(asked: Asked, flavor_is_the_servers: bool = False) -> None:
    """Raises InvalidHardware."""
    if not flavor_is_the_servers:
        _check_given(f"flavor {asked.flavor.name}", asked.flavor.extra_specs)
    _check_given("image", asked.image.properties if asked.image is not None else {})
    for name, reason in _FLAGS.items():
        for key, value in _both(asked, name):
            if is_true(value):
                raise exception.InvalidHardware(reason=f"{key}={value}: {reason}")
    for name, reason in _VALUES.items():
        for key, value in _both(asked, name):
            if value not in ("", "0"):
                raise exception.InvalidHardware(reason=f"{key}={value}: {reason}")
    for name, reason in _PROPERTIES.items():
        given = asked.property(name)
        if given is not None:
            raise exception.InvalidHardware(reason=f"image: {name}={given}: {reason}")
    policy = asked.either("pci_numa_affinity_policy")
    if policy in ("required", "socket") and asked.spec("pci_passthrough:alias") is not None:
        raise exception.InvalidHardware(reason=f"hw:pci_numa_affinity_policy={policy}: PCI devices are not chosen by their "
                                               "NUMA node")
    profile = asked.spec("accel:device_profile")
    if profile is not None:
        raise exception.InvalidHardware(reason=f"accel:device_profile={profile}: there is no accelerator service")


def _check_given(whose: str, given: Mapping[str, str]) -> None:
    for key, value in given.items():
        if _OF_PLACEMENT.fullmatch(key):
            raise exception.InvalidHardware(reason=f"{whose}: {key}={value}: there is no Placement; aggregates with "
                                                   "aggregate_instance_extra_specs choose hosts")
        if _OF_VMWARE.fullmatch(key):
            raise exception.InvalidHardware(reason=f"{whose}: {key}={value}: such limits, reservations and shares are "
                                                   "VMware's; quota:cpu_shares, quota:cpu_quota, quota:disk_... and "
                                                   "quota:vif_inbound_... are there")
        if _NUMBERS.match(key) and _TOO_LONG.search(str(value)):
            raise exception.InvalidHardware(reason=f"{whose}: {key} has a number of more than 20 digits")


def _both(asked: Asked, name: str) -> list[tuple[str, str]]:
    found = ((f"hw:{name}", asked.spec(f"hw:{name}")), (f"hw_{name}", asked.property(f"hw_{name}")))
    return [(key, value) for key, value in found if value is not None]
