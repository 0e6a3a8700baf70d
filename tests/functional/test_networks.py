"""What the Network API of the played cloud offers, the Compute API can use; and the machine gets no interface by it."""
from __future__ import annotations

import os

import requests

from tests.support.process import wait_for


def _network(standalone, user, method, path, body=None):
    answer = requests.request(method, f"{standalone.url}/network/v2.0{path}", json=body, timeout=10,
                              headers={"X-Auth-Token": standalone.token(user)})
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def _devices(*ids):
    """The interfaces of this machine whose names are made of these ids; tests that run beside this one have others."""
    return [name for name in os.listdir("/sys/class/net") if any(one[:8] in name for one in ids)]


def test_a_server_on_a_network_with_a_port_and_a_group(standalone, demo):
    [private] = _network(standalone, "demo", "GET", "/networks?name=private")["networks"]
    own = _network(standalone, "demo", "POST", "/networks", {"network": {"name": "own"}})["network"]
    port = _network(standalone, "demo", "POST", "/ports", {"port": {"network_id": own["id"]}})["port"]
    group = _network(standalone, "demo", "POST", "/security-groups", {"security_group": {"name": "nets"}})["security_group"]
    server = demo.boot("nets", demo.flavor("m1.nano"), networks=[{"uuid": private["id"]}, {"port": port["id"]}],
                       security_groups=[{"name": "nets"}])["id"]
    shown = demo.wait(server, "ACTIVE")
    assert shown["addresses"]["own"][0]["addr"] == port["fixed_ips"][0]["ip_address"]
    assert shown["addresses"]["private"][0]["addr"].startswith("10.71.0.")
    # the user's port has its own
    assert {one["name"] for one in shown["security_groups"]} == {"default", "nets"}
    [nic] = [p for p in _network(standalone, "demo", "GET", f"/ports?device_id={server}")["ports"]
             if p["network_id"] == private["id"]]
    assert (nic["security_groups"], nic["status"]) == ([group["id"]], "ACTIVE")

    added = demo.ok("POST", f"/servers/{server}/os-interface",
                    json={"interfaceAttachment": {"net_id": own["id"]}})["interfaceAttachment"]
    assert len(demo.server(server)["addresses"]["own"]) == 2
    assert not _devices(nic["id"], port["id"], added["port_id"], own["id"], private["id"])
    demo.ok("DELETE", f"/servers/{server}/os-interface/{added['port_id']}")
    wait_for("the nic to go", lambda: len(demo.server(server)["addresses"]["own"]) == 1)
    demo.action(server, "reboot", {"type": "HARD"})
    demo.wait(server, "ACTIVE")
    demo.delete(server)
    demo.wait_gone(server)
    _network(standalone, "demo", "DELETE", f"/ports/{port['id']}")       # the user's own, which a delete leaves
    _network(standalone, "demo", "DELETE", f"/networks/{own['id']}")
    _network(standalone, "demo", "DELETE", f"/security-groups/{group['id']}")
