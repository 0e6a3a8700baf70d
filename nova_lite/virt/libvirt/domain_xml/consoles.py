"""The console devices of a guest: serial console with its log, VNC or SPICE, screen, pointer."""
from __future__ import annotations

from lxml import etree
from lxml.builder import E

from nova_lite.virt.libvirt.config import Graphics, GuestConfig


def elements(config: GuestConfig) -> list[etree._Element]:
    """The serial console always; without graphics no screen and no USB controller at all, which saves memory."""
    found = [E.serial(E.log(file=config.console_log, append="off"), E.target(port="0"), type="pty")]
    found += [E.serial(E.target(port=str(port)), type="pty") for port in range(1, config.serial_ports)]
    usb = config.graphics is not None and config.graphics.pointer == "usb" or any(disk.bus == "usb" for disk in config.disks)
    if config.graphics is not None:
        found += _graphics(config.graphics)
    else:
        found.append(E.video(E.model(type="none")))
    if not usb:
        found.append(E.controller(type="usb", index="0", model="none"))
    return found


def _graphics(graphics: Graphics) -> list[etree._Element]:
    model = E.model(type=graphics.video)
    if graphics.video_ram:
        model.set("vram", str(graphics.video_ram))
    found = [E.graphics(type=protocol, autoport="yes", listen=graphics.listen) for protocol in graphics.protocols]
    found.append(E.video(model))
    if "spice" in graphics.protocols:       # for the agent in the guest: clipboard, size of the screen
        found.append(E.channel(E.target(type="virtio", name="com.redhat.spice.0"), type="spicevmc"))
    if graphics.pointer:
        found.insert(0, E.input(type="tablet", bus=graphics.pointer))
    return found
