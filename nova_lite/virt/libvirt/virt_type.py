"""Whether this host can run guests with KVM."""
from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Collection

from lxml import etree
from oslo_log import log

from nova_lite import exception

LOG = log.getLogger(__name__)

KVM, QEMU = "kvm", "qemu"
CPUINFO, DEVICE = pathlib.Path("/proc/cpuinfo"), "/dev/kvm"


def choose(wanted: str, arch: str, capabilities: str, cpuinfo: pathlib.Path = CPUINFO,
           device: str = DEVICE) -> str:
    """kvm or qemu for ``[libvirt] virt_type``; raises ConfigError when libvirt does not offer it. ``auto`` also checks the CPU:
    libvirt offers kvm wherever /dev/kvm opens, but without vmx or svm among the flags of the CPU (nested virtualisation is off,
    or /dev/kvm is emulated) no x86 guest boots under it."""
    offered = {domain_type for a, domain_type in offers(capabilities) if a == arch}
    if wanted != "auto":
        if wanted not in offered:
            raise exception.ConfigError(reason=f"[libvirt] virt_type = {wanted}, but libvirt offers only "
                                               f"{', '.join(sorted(offered)) or 'nothing'} for {arch}")
        return wanted
    reason = missing(arch, offered, cpuinfo, device)
    LOG.info("Guests run with %s%s", QEMU if reason else KVM, f": {reason}" if reason else "")
    if reason and QEMU not in offered:
        raise exception.ConfigError(reason=f"no hypervisor for {arch}: {reason}, and libvirt offers no qemu")
    return QEMU if reason else KVM


def offers(capabilities: str) -> list[tuple[str, str]]:
    """(architecture, domain type) of every kind of hvm guest that libvirt can run."""
    root = etree.fromstring(capabilities)
    return [(arch.get("name", ""), domain.get("type", "")) for guest in root.iterfind("guest")
            if guest.findtext("os_type") == "hvm" for arch in guest.iterfind("arch") for domain in arch.iterfind("domain")]


def missing(arch: str, offered: Collection[str], cpuinfo: pathlib.Path = CPUINFO, device: str = DEVICE) -> str:
    """Why KVM cannot be used by us, of the domain types that are ``offered``; empty when it can."""
    if KVM not in offered:
        return "libvirt does not offer kvm"
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        return f"{device} cannot be opened ({error.strerror})"
    if arch in ("x86_64", "i686") and not re.search(r"^flags\s*:.*\b(vmx|svm)\b", cpuinfo.read_text(), re.MULTILINE):
        return "the CPU shows neither vmx nor svm"
    return ""
