"""The messages for systemd (sd_notify): READY, RELOADING, STOPPING. Sends nothing where systemd did not start the process."""
from __future__ import annotations

import os
import socket


def notify(message: str) -> None:
    """Send ``message`` to the socket of ``NOTIFY_SOCKET``."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.connect(address)
        sock.sendall(message.encode())
