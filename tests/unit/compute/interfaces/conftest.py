import dataclasses
import os

import pytest

from tests.support.fake_neutron import CREDENTIALS, FakeNeutron
from tests.unit.api.compute.conftest import Client
from tests.unit.compute.volumes.volume_cloud import Meddling, VolumeCloud


class NicCloud(VolumeCloud):
    """A server on a small Neutron; ``host_network`` stands between the host and it."""

    def __init__(self, neutron, directory):
        super().__init__(directory, config=CREDENTIALS.format(url=neutron.url), network__driver="neutron",
                         service_user__retries=0)
        self.neutron = neutron
        neutron.new_port_status = "ACTIVE"
        self.member = Client(self.app, "user", "p", version="2.70")
        self.network, self.second = neutron.add_network("one"), neutron.add_network("two", "10.0.1.0/24")
        manager = self.hosts["h1"]
        self.host_network = Meddling(manager.host.network)
        manager.host = dataclasses.replace(manager.host, network=self.host_network)
        self.server = self.running(networks=[{"uuid": self.network}])
        self.path = f"/servers/{self.server}/os-interface"

    def attach(self, status=200, **wanted):
        """The answer's attachment, or the fault's message."""
        body = {"interfaceAttachment": wanted}
        if status != 200:
            return self.member.fault("POST", self.path, status, body)
        return self.member.post(self.path, body)["interfaceAttachment"]

    def detach(self, port, status=202):
        self.member.delete(f"{self.path}/{port}", status)
        self.actions_end(self.server)

    def nics(self):
        return [v.id for v in self.get(self.server).network_info]

    def ports(self):
        return {p["id"] for p in self.neutron.of(self.server)}


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "NOVA_LITE_CONCURRENCY", "threading")
    with FakeNeutron() as neutron:
        made = NicCloud(neutron, tmp_path)
        yield made
        for meddling in (made.host_network, *made.drivers.values()):
            meddling.heal()
        made.close()
