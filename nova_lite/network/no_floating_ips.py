"""Networks without floating IPs."""
from __future__ import annotations

from typing import NoReturn

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.objects.network import FloatingIP


class NoFloatingIPs:
    """``network.base.FloatingIPsAPI`` of a network that has none."""

    def pools(self, context: RequestContext) -> list[str]:
        """None."""
        return []

    def list_all(self, context: RequestContext) -> list[FloatingIP]:
        """None."""
        return []

    def get(self, context: RequestContext, floating_id: str) -> NoReturn:
        """Never there."""
        raise exception.NotFound(f"Floating IP {floating_id} could not be found.")

    def find(self, context: RequestContext, address: str) -> NoReturn:
        """Never there."""
        raise exception.NotFound(f"floating IP not found: {address}")

    def create(self, context: RequestContext, pool: str | None) -> NoReturn:
        """There is no pool."""
        raise exception.NotFound("Floating IP pool not found.")

    def delete(self, context: RequestContext, floating_id: str) -> NoReturn:
        """Never there."""
        self.get(context, floating_id)

    def associate(self, context: RequestContext, floating_id: str, port_id: str | None, fixed_address: str | None) -> NoReturn:
        """Never there."""
        self.get(context, floating_id)
