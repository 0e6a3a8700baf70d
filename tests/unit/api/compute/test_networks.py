"""/os-networks and /os-tenant-networks until 2.35."""
import pytest

from nova_lite.db import networks
from tests.unit.api.compute.conftest import assert_like_sample


@pytest.fixture
def network(cloud):
    return cloud.db.write(networks.create_network, "private", "10.1.0.0/24")["uuid"]


def test_networks(member, network):
    assert_like_sample(member.get("/os-networks"), "os-networks/networks-list-resp", "2.1")
    shown = member.get(f"/os-networks/{network}")
    assert_like_sample(shown, "os-networks/network-show-resp", "2.1")
    assert (shown["network"]["id"], shown["network"]["label"]) == (network, "private")


def test_tenant_networks(member, network):
    assert member.get("/os-tenant-networks") == {"networks": [{"id": network, "label": "private", "cidr": "10.1.0.0/24"}]}
    assert member.get(f"/os-tenant-networks/{network}")["network"]["cidr"] == "10.1.0.0/24"


def test_not_there(cloud, member, network):
    for path in ("/os-networks", "/os-tenant-networks"):
        assert member.fault("GET", f"{path}/none", 404) == "Network none could not be found."
        member.at("2.35").get(path)
        member.at("2.36").get(path, 404)
        cloud.client(roles=()).get(path, 403)
