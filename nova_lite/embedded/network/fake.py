"""The embedded network of guests that are played: networks, addresses and security groups as rows, and nothing on the host."""
from __future__ import annotations

from nova_lite.embedded.network.bridge import BridgeNetwork
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF


class FakeNetwork(BridgeNetwork):
    """``network.base.NetworkAPI``: the same for users as the bridge driver, without any interface on the machine."""

    def check_host(self) -> None:
        """Nothing is needed."""

    def init_host(self, host: str) -> None:
        """Nothing to make."""

    def refresh_filters(self) -> None:
        """Nothing to filter."""

    def plug(self, instance: Instance, vif: VIF) -> None:
        """Nothing to make."""

    def unplug(self, instance: Instance, vif: VIF) -> None:
        """Nothing to remove."""
