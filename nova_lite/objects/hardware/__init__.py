"""The hardware that flavor and image ask for. Pure: API, scheduler and hypervisor drivers get the same answer."""
from __future__ import annotations

from nova_lite.objects.flavor import Flavor
from nova_lite.objects.hardware import cpu, devices, disk_encryption, limits, numa, refused
from nova_lite.objects.hardware.asked import Asked
from nova_lite.objects.image import ImageMeta

UEFI = "CUSTOM_FIRMWARE_UEFI"                       # Nova has no name for it
SECURE_BOOT = "COMPUTE_SECURITY_UEFI_SECURE_BOOT"


def check(flavor: Flavor, image: ImageMeta | None, flavor_is_the_servers: bool = False) -> None:
    """Raise InvalidHardware or FlavorImageConflict (400) for a guest that cannot be. ``flavor_is_the_servers``: it has the
    guest already, whatever an earlier version took and left out."""
    asked = Asked(flavor, image)
    refused.check(asked, flavor_is_the_servers)
    cpu.topology(asked)
    numa.demand(asked)
    devices.check(asked)
    disk_encryption.check(asked)
    limits.check(asked)


def traits(flavor: Flavor, image: ImageMeta | None) -> frozenset[str]:
    """The traits that a host needs for such a guest. Raises as ``check`` does."""
    asked = Asked(flavor, image)
    wanted = set()
    if (tpm := devices.tpm(asked)) is not None:
        wanted.add(f"COMPUTE_SECURITY_TPM_{tpm.version.replace('.', '_')}")
    if devices.is_uefi(asked):
        wanted.add(UEFI)
    if devices.secure_boot(asked) == devices.REQUIRED:
        wanted.add(SECURE_BOOT)
    return frozenset(wanted | disk_encryption.traits(asked))


def demand(flavor: Flavor, image: ImageMeta | None) -> numa.Demand | None:
    """The NUMA nodes that such a guest has; None: it floats over its host. Raises InvalidHardware."""
    return numa.demand(Asked(flavor, image))


def has_tpm(flavor: Flavor, image: ImageMeta | None) -> bool:
    """Whether such a guest has a TPM, which remembers things that are in no disk."""
    return devices.tpm(Asked(flavor, image)) is not None


def secure_boot(flavor: Flavor, image: ImageMeta | None) -> str:
    """disabled, optional or required. Raises as ``check`` does."""
    return devices.secure_boot(Asked(flavor, image))


def encrypts_disks(flavor: Flavor, image: ImageMeta | None) -> bool:
    """Whether such a guest's own disks are encrypted. Raises as ``check`` does."""
    return disk_encryption.is_asked(Asked(flavor, image))
