"""The bridge driver on a host with one network: fixtures and helpers of tests/integration. Needs root."""
from __future__ import annotations

import contextlib
import pathlib
import uuid

import pytest

from nova_lite import conf as conf_module
from nova_lite.context import RequestContext
from nova_lite.db import migration, networks
from nova_lite.db.core import Database
from nova_lite.db.port_store import DatabasePortStore
from nova_lite.embedded.network.bridge import BridgeNetwork
from nova_lite.embedded.network.dhcp import Dnsmasq
from nova_lite.network.host import NetworkHost
from tests.support.bridge_guests import Client, Metadata, free_range, run
from tests.support.servers import add_server

CONTEXT = RequestContext(user_id="u", project_id="p", overwrite=False)


@pytest.fixture
def metadata():
    server = Metadata()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["namespace"])
def at(request, tmp_path, metadata):
    """(conf, db, driver, network) with a namespace in place of the host, or the host itself."""
    netns = "nlt" + uuid.uuid4().hex[:8] if request.param == "namespace" else ""
    conf = conf_module.load([], config_files=[], host="node", state_path=str(tmp_path / "state"), network__netns=netns,
                            database__connection=f"sqlite:///{tmp_path}/db", metadata__port=metadata.server_address[1])
    migration.sync(conf)
    db = Database(conf)
    network = db.write(networks.create_network, name="private", cidr=free_range(), mtu=1450, dns=["9.9.9.9"])
    driver = BridgeNetwork(conf, DatabasePortStore(db))
    driver.init_host("node")
    try:
        yield conf, db, driver, network
    finally:
        driver.remove_host()
        if netns:
            run("ip", "netns", "delete", netns)
        db.dispose()


@contextlib.contextmanager
def plugged(at, tmp_path, instance=None):
    """(server, :class:`Client`) of a server that has a nic on the network, until the end of the block."""
    conf, db, driver, network = at
    instance = instance or add_server(db)
    vif = driver.allocate(CONTEXT, instance, "auto", "node")[0]
    driver.plug(instance, vif)
    client = Client(tmp_path / instance.uuid, conf.network.netns, network["bridge"], vif)
    try:
        yield instance, client
    finally:
        client.close()


def daemon_of(at) -> Dnsmasq:
    """The dnsmasq of the network's bridge."""
    conf, _db, _driver, network = at
    return Dnsmasq(pathlib.Path(conf.state_path) / "dhcp", network["bridge"], NetworkHost(conf.network.netns))
