"""Devices that come and go while a guest lives."""
from __future__ import annotations

import functools
from typing import Any

from lxml import etree
from oslo_log import log

from nova_lite import exception, retry
from nova_lite.objects import states
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)

ASKS, ASK_EVERY = 8, 20.0       # a guest that boots misses the request to release a device: so it is repeated
_POLL = 0.3
_SAVED = ("the guest's memory is saved with the devices that it has: resume the server, or start it, first; a hard reboot "
          "throws the memory away")


class GuestDevices:
    """Devices of one guest, in its running domain and in its configuration; either may be missing. ``kind`` is their name in
    messages, ``element`` finds a device by its key."""

    kind = "device"

    @staticmethod
    def element(domain: etree._Element, key: str) -> etree._Element | None:
        """The element of a device of a domain."""
        raise NotImplementedError

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.lib = guest.lib

    def attach(self, xml: str, key: str) -> None:
        """Add a device wherever it is missing. VirtDriverError when QEMU cannot open it, or when the guest's memory is saved:
        the memory would return without the device. ConnectionLost when libvirtd ends meanwhile: then it has lost the passphrase
        of an encrypted disk."""
        if self._saved() is not None:
            raise exception.DriverRefusal(what=f"Attaching {self.kind} {key}", reason=_SAVED)
        for flag in self._both():
            side = self.side(flag)
            if side is not None and self.element(side, key) is None:
                self.guest.do(functools.partial(_attach, self.fitted(xml, side), flag), once=True)

    @staticmethod
    def fitted(xml: str, domain: etree._Element) -> str:
        """A device's XML as this domain takes it."""
        return xml

    def detach(self, key: str) -> None:
        """Remove a device and wait until the guest has released it; VirtDriverError when the guest does not. Then the device
        stays in the configuration, too. A paused guest is not asked: it would release the device when it runs again, long after
        the failure was reported. Nor is a guest whose memory is saved with the device: it would return with the device, when
        another server may have it."""
        config, live = self.lib.VIR_DOMAIN_AFFECT_CONFIG, self.lib.VIR_DOMAIN_AFFECT_LIVE
        if self.guest.power_state() == states.POWER_PAUSED and self.find(key, live) is not None:
            raise exception.DriverRefusal(what=f"Detaching {self.kind} {key}",
                                            reason="the guest is paused and cannot release it: unpause it first")
        if (saved := self._saved()) is not None and self.element(saved, key) is not None:
            raise exception.DriverRefusal(what=f"Detaching {self.kind} {key}", reason=_SAVED)
        self._let_go(key)
        if (found := self.find(key, config)) is not None:
            self._ask(found, config)

    def _let_go(self, key: str) -> None:
        live = self.lib.VIR_DOMAIN_AFFECT_LIVE
        for _ in range(ASKS):
            if (found := self.find(key, live)) is None:
                return
            self._ask(found, live)
            if self._gone_within(key, ASK_EVERY):
                return
            LOG.warning("The guest has not released %s %s: asking again", self.kind, key,
                        extra={"instance_uuid": self.guest.uuid})
        raise exception.DriverRefusal(what=f"Detaching {self.kind} {key}",
                                        reason=f"the guest did not release it within {ASKS * ASK_EVERY:.0f} seconds")

    def _both(self) -> tuple[int, int]:
        return self.lib.VIR_DOMAIN_AFFECT_LIVE, self.lib.VIR_DOMAIN_AFFECT_CONFIG

    def side(self, flag: int) -> etree._Element | None:
        """The running domain, or its configuration; None where there is no such thing."""
        live, inactive = flag == self.lib.VIR_DOMAIN_AFFECT_LIVE, self.lib.VIR_DOMAIN_XML_INACTIVE

        def read(domain: Any) -> str | None:
            if live:
                return domain.XMLDesc(0) if domain.isActive() else None
            return domain.XMLDesc(inactive) if domain.isPersistent() else None

        text = self.guest.do(read)
        return etree.fromstring(text) if text else None

    def _saved(self) -> etree._Element | None:
        """The domain that its saved memory is of; None where it runs, or has none."""
        def read(domain: Any) -> str | None:
            return domain.managedSaveGetXMLDesc(0) if domain.hasManagedSaveImage(0) and not domain.isActive() else None

        text = self.guest.do(read)
        return etree.fromstring(text) if text else None

    def find(self, key: str, flag: int) -> str | None:
        """The XML of one in the running domain or its configuration."""
        side = self.side(flag)
        found = None if side is None else self.element(side, key)
        return None if found is None else etree.tostring(found, encoding="unicode", with_tail=False)

    def _ask(self, xml: str, flag: int) -> None:
        """It is no error that it is gone, that the guest is off meanwhile, or that it is being asked already."""
        lib = self.lib

        def detach(domain: Any) -> None:
            try:
                domain.detachDeviceFlags(xml, flag)
            except lib.libvirtError as error:
                gone = error.get_error_code() in (lib.VIR_ERR_DEVICE_MISSING, lib.VIR_ERR_OPERATION_INVALID)
                if not gone and "in the process of unplug" not in str(error):
                    raise

        self.guest.do(detach)

    def _gone_within(self, key: str, seconds: float) -> bool:
        return retry.poll(lambda: self.find(key, self.lib.VIR_DOMAIN_AFFECT_LIVE) is None, bool,
                          retry.every(_POLL, timeout=seconds), self.guest.clock)


def _attach(xml: str, flag: int, domain: Any) -> None:
    domain.attachDeviceFlags(xml, flag)
