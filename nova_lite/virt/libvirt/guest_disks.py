"""Disks that come and go while a guest lives, found by their serial: the id of the volume."""
from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from lxml import etree
from oslo_log import log

from nova_lite import exception, units
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)

ASKS, ASK_EVERY = 8, 20.0       # a guest that is just booting does not hear that a disk is to go: so ask again
_POLL = 0.3


class GuestDisks:
    """The disks of one guest, in its running domain and in its configuration; either may be missing."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._lib = guest.lib

    def attach(self, xml: str, serial: str) -> None:
        """Add a disk wherever it is not yet. VirtDriverError when QEMU cannot open it."""
        for flag in self._both():
            side = self._xml(flag)
            if side is not None and _disk(side, serial) is None:
                self._guest.do(functools.partial(_attach, xml, flag))

    def detach(self, serial: str) -> None:
        """Take a disk away and wait until the guest let go; VirtDriverError when it never does."""
        config, live = self._lib.VIR_DOMAIN_AFFECT_CONFIG, self._lib.VIR_DOMAIN_AFFECT_LIVE
        if (found := self._find(serial, config)) is not None:
            self._ask(found, config)
        for _ in range(ASKS):
            if (found := self._find(serial, live)) is None:
                return
            self._ask(found, live)
            if self._gone_within(serial, ASK_EVERY):
                return
            LOG.warning("The guest does not let go of volume %s: asking again", serial,
                        extra={"instance_uuid": self._guest.uuid})
        raise exception.VirtDriverError(what=f"Detaching volume {serial}",
                                        reason=f"the guest did not let go of it within {ASKS * ASK_EVERY:.0f} seconds")

    def resize(self, serial: str, gigabytes: int) -> None:
        """Tell a running guest the new size; one that is off sees it when it starts."""
        found = self._find(serial, self._lib.VIR_DOMAIN_AFFECT_LIVE)
        if found is None:
            return
        target = etree.fromstring(found).find("target")
        name, flag = target.get("dev") if target is not None else None, self._lib.VIR_DOMAIN_BLOCK_RESIZE_BYTES
        self._guest.do(lambda domain: domain.blockResize(name, gigabytes * units.GiB, flag))

    def _both(self) -> tuple[int, int]:
        return self._lib.VIR_DOMAIN_AFFECT_LIVE, self._lib.VIR_DOMAIN_AFFECT_CONFIG

    def _xml(self, flag: int) -> etree._Element | None:
        """The running domain, or its configuration; None where there is no such thing."""
        live, inactive = flag == self._lib.VIR_DOMAIN_AFFECT_LIVE, self._lib.VIR_DOMAIN_XML_INACTIVE

        def read(domain: Any) -> str | None:
            if live:
                return domain.XMLDesc(0) if domain.isActive() else None
            return domain.XMLDesc(inactive) if domain.isPersistent() else None

        text = self._guest.do(read, retry=True)
        return etree.fromstring(text) if text else None

    def _find(self, serial: str, flag: int) -> str | None:
        side = self._xml(flag)
        return None if side is None else _disk(side, serial)

    def _ask(self, xml: str, flag: int) -> None:
        """It is no error that it is gone, that the guest is off meanwhile, or that it is being asked already."""
        lib = self._lib

        def detach(domain: Any) -> None:
            try:
                domain.detachDeviceFlags(xml, flag)
            except lib.libvirtError as error:
                gone = error.get_error_code() in (lib.VIR_ERR_DEVICE_MISSING, lib.VIR_ERR_OPERATION_INVALID)
                if not gone and "in the process of unplug" not in str(error):
                    raise

        self._guest.do(detach)

    def _gone_within(self, serial: str, seconds: float) -> bool:
        return _becomes_true(lambda: self._find(serial, self._lib.VIR_DOMAIN_AFFECT_LIVE) is None, seconds)


def _attach(xml: str, flag: int, domain: Any) -> None:
    domain.attachDeviceFlags(xml, flag)


def _disk(domain: etree._Element, serial: str) -> str | None:
    """The XML of a disk of a domain."""
    for found in domain.iterfind("devices/disk"):
        if found.findtext("serial") == serial:
            return etree.tostring(found, encoding="unicode", with_tail=False)
    return None


def _becomes_true(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True
