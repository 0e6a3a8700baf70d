"""addFixedIp and removeFixedIp by REST, from Neutron back into the server's addresses."""
from __future__ import annotations

import uuid

import pytest

from tests.support.process import wait_for


@pytest.fixture
def old(cloud):
    """A client of a microversion that has the actions."""
    return cloud.member.at("2.43")


def act(cloud, client, name, status=202, **argument):
    return client.ask("POST", f"/servers/{cloud.server}/action", {name: argument}, status)


def addresses(cloud, name="one"):
    return [a["addr"] for a in cloud.member.get(f"/servers/{cloud.server}")["server"]["addresses"].get(name, [])]


def test_one_more_and_one_less(cloud, old):
    [first] = addresses(cloud)
    act(cloud, old, "addFixedIp", networkId=cloud.network)
    wait_for("the new address", lambda: len(addresses(cloud)) == 2, 20)
    [port] = cloud.neutron.of(cloud.server)
    assert [a["ip_address"] for a in port["fixed_ips"]] == addresses(cloud)
    act(cloud, old, "removeFixedIp", address=first)
    wait_for("the old address to go", lambda: len(addresses(cloud)) == 1, 20)
    assert addresses(cloud) != [first]


def test_the_next_subnet_is_taken_when_the_first_is_full(cloud, old):
    # the smallest subnet: its only other address is the gateway's
    full = cloud.neutron.add_network("full", "10.9.0.0/30")
    cloud.attach(net_id=full)
    cloud.neutron.add_subnet(full, "10.9.1.0/24")
    act(cloud, old, "addFixedIp", networkId=full)
    wait_for("an address of the other subnet", lambda: any(a.startswith("10.9.1.") for a in addresses(cloud, "full")), 20)


def test_what_is_refused(cloud, old):
    before = addresses(cloud)
    for network in (cloud.second, str(uuid.uuid4())):
        fault = act(cloud, old, "addFixedIp", 400, networkId=network)
        assert f"has no nic on network {network}" in fault["badRequest"]["message"]
    assert "does not have fixed IP '10.0.0.250'" in act(cloud, old, "removeFixedIp", 400, address="10.0.0.250")["badRequest"][
        "message"]
    for name, argument in (("addFixedIp", {}), ("removeFixedIp", {"address": "ten"}), ("addFixedIp", {"networkId": ""})):
        act(cloud, old, name, 400, **argument)
    # unknown from 2.44 on
    act(cloud, cloud.member.at("2.44"), "addFixedIp", 404, networkId=cloud.network)
    assert addresses(cloud) == before


def test_anothers_server_and_a_locked_one(cloud, old):
    stranger = cloud.member.at("2.43")
    stranger = type(stranger)(stranger.app, "eve", "other", version="2.43")
    act(cloud, stranger, "addFixedIp", 404, networkId=cloud.network)
    cloud.member.ask("POST", f"/servers/{cloud.server}/action", {"lock": None}, 202)
    act(cloud, old, "addFixedIp", 409, networkId=cloud.network)
