"""Consoles: where a running guest's are, and the end of the serial console's log, which virtlogd writes and rotates
(console.log, console.log.0, ...)."""
from __future__ import annotations

import pathlib

from lxml import etree

from nova_lite import exception, units
from nova_lite.objects import states
from nova_lite.objects.console import Console
from nova_lite.objects.instance import Instance
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.serial_server import SerialServer

MAX_BYTES = 100 * units.KiB     # most bytes of one answer, as in Nova


def _check_runs(guest: Guest, instance: Instance, protocol: str) -> None:
    """Raise InstanceNotFound or InstanceInvalidState unless there is a guest that runs."""
    state = guest.power_state()
    if state is None:
        raise exception.InstanceNotFound(instance_id=instance.uuid)
    if state not in (states.RUNNING, states.POWER_PAUSED):
        raise exception.InstanceInvalidState(action=f"get_{protocol}_console", instance_id=instance.uuid, attr="power state",
                                             state=states.POWER_NAMES[state])


def find(guest: Guest, instance: Instance, protocol: str, address: str, serial: SerialServer | None) -> Console:
    """The console of a guest, reached at ``address``. Raises InstanceNotFound, InstanceInvalidState, ConsoleTypeUnavailable."""
    _check_runs(guest, instance, protocol)
    if protocol == "serial":
        if serial is None:
            raise exception.ConsoleTypeUnavailable(console_type=protocol)
        return Console(address, serial.port, internal_access_path=serial.path_of(instance.uuid))
    graphics = _element(guest, f"graphics[@type='{protocol}']")
    port = _port(graphics, "port")
    if port is None:
        raise exception.ConsoleTypeUnavailable(console_type=protocol)
    return Console(address, port, _port(graphics, "tlsPort"))


def pty(guest: Guest) -> str:
    """The terminal at the other end of a running guest's serial port. Raises VirtDriverError without one."""
    source = _element(guest, "serial[@type='pty']/source")
    path = source.get("path") if source is not None else None
    if not path:
        raise exception.DriverRefusal(what="serial console", reason=f"guest {guest.uuid} does not run, or has none")
    return path


def _element(guest: Guest, path: str) -> etree._Element | None:
    xml = guest.xml()
    return etree.fromstring(xml).find(f"devices/{path}") if xml else None


def _port(element: etree._Element | None, name: str) -> int | None:
    number = int(element.get(name, "-1")) if element is not None else -1
    return number if number > 0 else None


def trim(path: pathlib.Path) -> None:
    """A log that was copied by QEMU, in whole sectors: without the zeros at its end."""
    data = path.read_bytes()
    path.write_bytes(data.rstrip(b"\0"))
    path.chmod(0o600)


def tail(path: pathlib.Path, lines: int | None) -> str:
    """The last ``lines`` lines (None: all), at most MAX_BYTES of them; empty when the guest never ran. Who asks for a number
    of lines gets them with newlines between them and none at the end: clients count."""
    data = b""
    for part in (path, path.with_name(path.name + ".0")):
        data = _end_of(part, MAX_BYTES - len(data)) + data
        if len(data) >= MAX_BYTES:
            break
    text = data.decode("utf-8", errors="replace")
    if lines is None:
        return text
    if lines <= 0:
        return ""
    return "\n".join(text.removesuffix("\n").split("\n")[-lines:])


def _end_of(path: pathlib.Path, size: int) -> bytes:
    try:
        with open(path, "rb") as stream:
            end = stream.seek(0, 2)
            stream.seek(max(0, end - size))
            return stream.read(size)
    except FileNotFoundError:
        return b""
