"""TCP ports for serial consoles: libvirt finds none by itself, as it does for VNC."""
from __future__ import annotations

import random
import socket
import threading
import time

from oslo_config import cfg

from nova_lite import exception

HELD = 60.0     # seconds: a port that was given out may not be listened at yet


class SerialPorts:
    """Ports of this host for guests that start."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._enabled, self._listen = conf.serial_console.enabled, conf.console.server_listen
        first, _, last = conf.serial_console.port_range.partition(":")
        self._range = range(int(first), int(last) + 1)
        if self._enabled and not (0 < int(first) <= int(last) < 65536):
            raise exception.ConfigError(reason=f"[serial_console] port_range = {conf.serial_console.port_range}: these are no "
                                               "ports, or the first is above the last")
        self._given: dict[int, float] = {}
        self._lock = threading.Lock()

    def take(self) -> int | None:
        """A free port; None where serial consoles are not enabled. Raises VirtDriverError when all are taken."""
        if not self._enabled:
            return None
        with self._lock:
            now = time.monotonic()
            self._given = {port: until for port, until in self._given.items() if until > now}
            for port in random.sample(self._range, len(self._range)):
                if port not in self._given and _is_free(self._listen, port):
                    self._given[port] = now + HELD
                    return port
        raise exception.VirtDriverError(what="serial console", reason=f"all ports from {self._range[0]} to {self._range[-1]} "
                                                                      "are taken ([serial_console] port_range)")


def _is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True
