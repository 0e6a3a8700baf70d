"""Firmware, TPM, screen and the small devices of a guest."""
from __future__ import annotations

import re
from typing import NamedTuple

from nova_lite import exception
from nova_lite.objects.hardware.asked import Asked, among

DISABLED, OPTIONAL, REQUIRED = "disabled", "optional", "required"
# image properties with a fixed list of values in Nova; each hypervisor driver supports a part of them
_BUSES = ("fdc", "ide", "lxc", "sata", "scsi", "uml", "usb", "virtio", "xen")
_PROPERTIES: dict[str, tuple[str, ...]] = {
    "hw_disk_bus": _BUSES, "hw_cdrom_bus": _BUSES, "hw_floppy_bus": _BUSES, "hw_rescue_bus": _BUSES,
    "hw_firmware_type": ("bios", "uefi"), "hw_input_bus": ("usb", "virtio"), "hw_pointer_model": ("usbtablet", "ps2mouse"),
    "hw_rng_model": ("virtio",),
    "hw_scsi_model": ("buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi"),
    "hw_vif_model": ("e1000", "e1000e", "igb", "lan9118", "ne2k_pci", "netfront", "pcnet", "rtl8139", "spapr-vlan", "sriov",
                     "virtio", "virtuale1000", "virtuale1000e", "virtualpcnet32", "virtualsriovethernetcard", "virtualvmxnet",
                     "virtualvmxnet3", "vmxnet", "vmxnet3"),
    "hw_video_model": ("bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio", "vmvga", "xen"),
    "os_type": ("linux", "windows"), "os_secure_boot": (DISABLED, OPTIONAL, REQUIRED)}
WATCHDOG_ACTIONS = (DISABLED, "reset", "poweroff", "pause", "none")


class Tpm(NamedTuple):
    """A TPM made of software: version 1.2 or 2.0, tpm-tis or tpm-crb."""

    version: str
    model: str


def check(asked: Asked) -> None:
    """Raises InvalidHardware or FlavorImageConflict."""
    for name, allowed in _PROPERTIES.items():
        among(asked, name, asked.property(name), allowed)
    machine = asked.property("hw_machine_type")
    if machine is not None and re.fullmatch(r"[A-Za-z0-9._-]+", machine) is None:
        raise exception.InvalidHardware(reason="Invalid image metadata. Error: "
                                               f"hw_machine_type={machine} is not a machine type")
    for name in ("hw_rng:rate_bytes", "hw_rng:rate_period"):
        asked.number(name)
    tpm(asked)
    secure_boot(asked)
    watchdog(asked)
    video_ram(asked)
    serial_ports(asked)
    for name in ("vif_multiqueue_enabled", "pmu"):
        asked.agreed_flag(name)


def is_uefi(asked: Asked) -> bool:
    """Rather than a BIOS."""
    return (asked.property("hw_firmware_type") or "bios").lower() == "uefi"


def tpm(asked: Asked) -> Tpm | None:
    """Raises InvalidHardware for a TPM that does not exist, FlavorImageConflict."""
    version = asked.agreed("tpm_version")
    model = asked.agreed("tpm_model")
    if version is None and model is None:
        return None
    if version is None:
        raise exception.InvalidHardware(reason=f"a TPM of model {model} needs hw:tpm_version, too")
    among(asked, "hw:tpm_version", version, ("1.2", "2.0"))
    model = among(asked, "hw:tpm_model", model or "tpm-tis", ("tpm-tis", "tpm-crb"))
    if (version, model) == ("1.2", "tpm-crb"):
        raise exception.InvalidHardware(reason="TPM model tpm-crb is not there in version 1.2")
    return Tpm(version, str(model))


def secure_boot(asked: Asked) -> str:
    """disabled, optional or required. Raises FlavorImageConflict, InvalidHardware where it is required of a BIOS."""
    spec = among(asked, "os:secure_boot", asked.spec("os:secure_boot"), (DISABLED, OPTIONAL, REQUIRED))
    given = among(asked, "os_secure_boot", asked.property("os_secure_boot"), (DISABLED, OPTIONAL, REQUIRED))
    if {spec, given} == {DISABLED, REQUIRED}:
        raise exception.FlavorImageConflict(reason=f"Secure boot is {spec} for flavor {asked.flavor.name} and {given} for the "
                                                   "image")
    wanted = REQUIRED if REQUIRED in (spec, given) else spec or given or DISABLED
    if wanted == REQUIRED and not is_uefi(asked):
        raise exception.InvalidHardware(reason="secure boot is required, but the image does not say hw_firmware_type=uefi")
    return wanted if is_uefi(asked) else DISABLED


def watchdog(asked: Asked) -> str | None:
    """The action of the watchdog when the guest does not reset it in time; None: there is no watchdog. Raises
    InvalidHardware."""
    name = "hw:watchdog_action" if asked.spec("hw:watchdog_action") else "hw_watchdog_action"
    action = among(asked, name, asked.either("watchdog_action"), WATCHDOG_ACTIONS)
    return None if action == DISABLED else action


def video_ram(asked: Asked) -> int | None:
    """MiB of the screen's memory, as the image asks for it and the flavor allows. Raises InvalidHardware."""
    wanted, most = asked.number("hw_video_ram", 0) or 0, asked.number("hw_video:ram_max_mb", 0) or 0
    if wanted > most:
        raise exception.InvalidHardware(reason=f"The requested amount of video memory {wanted} is higher than the maximum "
                                               f"allowed by flavor {most}.")
    return wanted or None


def serial_ports(asked: Asked) -> int:
    """At least one: its output is the console log. Raises InvalidHardware for an image that wants more than the flavor has."""
    most, wanted = asked.number("hw:serial_port_count"), asked.number("hw_serial_port_count")
    if wanted is not None and wanted > (most or 1):
        raise exception.InvalidHardware(reason=f"the image asks for {wanted} serial ports, the flavor has {most or 1}")
    if (most or 1) > 4:
        raise exception.InvalidHardware(reason=f"hw:serial_port_count={most}: a machine has 4 at most")
    return wanted or most or 1
