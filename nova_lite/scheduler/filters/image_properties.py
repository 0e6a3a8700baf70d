"""Hosts whose hypervisor can run the image."""
from __future__ import annotations

import operator
import re
from collections.abc import Callable

import numpy as np

from nova_lite.scheduler.filters.base import Filter
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.snapshot import Snapshot

_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "x86": "i686", "i386": "i686", "i486": "i686", "i586": "i686",
                  "arm64": "aarch64", "ppc64el": "ppc64le"}
_VM_MODES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "": operator.eq, "=": operator.eq, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le,
    ">": operator.gt, "<": operator.lt}


class ImagePropertiesFilter(Filter):
    """hw_architecture, img_hv_type and hw_vm_mode (and their old names) fit one of the host's supported instances.

    ``img_hv_requested_version`` (e.g. ``>=6.2,<9``) is compared with the hypervisor's version.
    """

    def mask(self, snapshot: Snapshot, request: Request) -> np.ndarray:
        properties = request.spec.image.properties if request.spec.image else {}
        wanted = (
            _name(properties.get("hw_architecture") or properties.get("architecture"), _ARCHITECTURES),
            _name(properties.get("img_hv_type") or properties.get("hypervisor_type"), {}),
            _name(properties.get("hw_vm_mode") or properties.get("vm_mode"), _VM_MODES))
        mask = snapshot.everything()
        if any(wanted):
            fits = np.array([_supported(kinds, wanted) for kinds in snapshot.supports], dtype=bool)
            mask = fits[snapshot.support] if snapshot.size else mask
        versions = properties.get("img_hv_requested_version") or properties.get("hypervisor_version_requires")
        if versions:
            known = {int(v): _version_fits(int(v), str(versions)) for v in np.unique(snapshot.hypervisor_version)}
            mask = mask & np.array([known[int(v)] for v in snapshot.hypervisor_version], dtype=bool)
        return mask


def _name(value: object, aliases: dict[str, str]) -> str | None:
    if not value:
        return None
    name = str(value).lower()
    return aliases.get(name, name)


def _supported(kinds: tuple[tuple[str, str, str], ...], wanted: tuple[str | None, str | None, str | None]) -> bool:
    for architecture, hypervisor, mode in kinds:
        have = (_name(architecture, _ARCHITECTURES), _name(hypervisor, {}), _name(mode, _VM_MODES))
        if all(w is None or w == h for w, h in zip(wanted, have, strict=True)):
            return True
    return False


def _version_fits(version: int, conditions: str) -> bool:
    """``version`` is libvirt's number (9.1.2 is 9001002). A condition that cannot be read is not met."""
    for condition in conditions.split(","):
        found = re.fullmatch(r"\s*\(?\s*([<>=!]{0,2})\s*(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?\s*\)?\s*", condition)
        if not found or found[1] not in _COMPARISONS:
            return False
        number = int(found[2]) * 1_000_000 + int(found[3] or 0) * 1_000 + int(found[4] or 0)
        if not _COMPARISONS[found[1]](version, number):
            return False
    return True
