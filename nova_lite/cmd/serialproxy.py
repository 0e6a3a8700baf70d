"""nova-lite-serialproxy: serial consoles by websocket. It asks the conductor; it knows no database."""
from __future__ import annotations

from nova_lite.console import services


def main() -> int:
    """Run until a signal."""
    return services.SERIAL.main()
