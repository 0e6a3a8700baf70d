"""nova-lite-spicehtml5proxy: SPICE consoles in browsers, with spice-html5's pages. It asks the conductor, not the database."""
from __future__ import annotations

from nova_lite.console import services


def main() -> int:
    """Run until a signal."""
    return services.SPICE.main()
