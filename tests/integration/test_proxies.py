"""Security groups and floating IPs of the Neutron driver, and snapshots of the Cinder driver, with the real services."""
from __future__ import annotations

import time
import uuid

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron import NeutronNetwork
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import SecurityGroupRule
from nova_lite.volume.cinder import CinderVolumes

NOWHERE = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def conf(neighbours, tmp_path):
    file = tmp_path / "nova-lite.conf"
    lines = [f"{key.partition('__')[2]} = {value}" for key, value in neighbours.options().items()
             if key.startswith("service_user__")]
    file.write_text("[service_user]\n" + "\n".join(lines) + "\n")
    return nova_conf.load([], config_files=[str(file)])


@pytest.fixture
def user(neighbours):
    return RequestContext(user_id="demo", project_id=neighbours.project_id("demo"), roles=["member"],
                          auth_token=neighbours.token("demo"), overwrite=False)


@pytest.fixture
def server(neighbours, user):
    """A server that Neutron knows by its port."""
    made = Instance(str(uuid.uuid4()), user.project_id, "demo", "s", Flavor("1", "f", 64, 1, 1))
    port = neighbours.call("POST", "neutron", "/v2.0/ports", "admin", json={"port": {
        "network_id": neighbours.network_id(), "project_id": user.project_id, "device_id": made.uuid}})["port"]["id"]
    yield made
    neighbours.call("DELETE", "neutron", f"/v2.0/ports/{port}", "admin")


def test_groups_and_their_rules(conf, user, server):
    groups = NeutronNetwork(conf, None).groups
    name = f"web-{uuid.uuid4().hex[:8]}"
    web = groups.create(user, name, "text")
    try:
        assert groups.update(user, web.id, name, "other").description == "other"
        tcp = groups.add_rule(user, SecurityGroupRule("", web.id, "tcp", 22, 23, "10.0.0.0/8"))
        ping = groups.add_rule(user, SecurityGroupRule("", web.id, "icmp", -1, -1, "0.0.0.0/0"))
        own = groups.add_rule(user, SecurityGroupRule("", web.id, remote_group_id=web.id))
        assert (tcp.protocol, tcp.from_port, tcp.to_port, tcp.cidr) == ("tcp", 22, 23, "10.0.0.0/8")
        assert (ping.from_port, own.remote_group) == (-1, {"name": name, "tenant_id": user.project_id})
        with pytest.raises(exception.Invalid):
            groups.add_rule(user, SecurityGroupRule("", web.id, "tcp", 22, 23, "10.0.0.0/8"))
        assert {rule.id for rule in groups.get(user, web.id).rules} == {tcp.id, ping.id, own.id}
        assert {group.name for group in groups.list_all(user)} >= {name, "default"}
        groups.add(user, server, name)
        assert {group.name for group in groups.of_server(user, server)} == {"default", name}
        with pytest.raises(exception.Invalid):
            groups.delete(user, web.id)         # in use
        groups.remove(user, server, web.id)
        assert [group.name for group in groups.of_server(user, server)] == ["default"]
        with pytest.raises(exception.SecurityGroupNotFound):
            groups.remove(user, server, name)
        groups.delete_rule(user, tcp.id)
        with pytest.raises(exception.SecurityGroupNotFound):
            groups.delete_rule(user, tcp.id)
    finally:
        groups.delete(user, web.id)
    for call in (lambda: groups.get(user, web.id), lambda: groups.add(user, server, name)):
        with pytest.raises(exception.SecurityGroupNotFound):
            call()


def test_floating_ips(conf, user):
    floating = NeutronNetwork(conf, None).floating_ips
    assert "public" in floating.pools(user)
    made = floating.create(user, "public")
    try:
        assert (made.pool, made.fixed_address, made.instance_id) == ("public", None, None)
        assert floating.get(user, made.id) == floating.find(user, made.address) == made
        assert made in floating.list_all(user)
    finally:
        floating.delete(user, made.id)
    for call in (lambda: floating.get(user, made.id), lambda: floating.find(user, made.address),
                 lambda: floating.create(user, "nowhere"), lambda: floating.delete(user, NOWHERE)):
        with pytest.raises(exception.NotFound):
            call()


def test_snapshots(conf, user):
    volumes = CinderVolumes(conf)
    volume = volumes.create(user, 1, "data", volume_type="dataless")
    try:
        _wait(lambda: volumes.get(user, volume.id).status == "available")
        made = volumes.create_snapshot(user, volume.id, "before", "text")
        assert (made.volume_id, made.size, made.name, made.description) == (volume.id, 1, "before", "text")
        _wait(lambda: volumes.get_snapshot(user, made.id).status == "available")
        assert made.id in [one.id for one in volumes.list_snapshots(user)]
        volumes.delete_snapshot(user, made.id)
        _wait(lambda: made.id not in [one.id for one in volumes.list_snapshots(user)])
    finally:
        volumes.delete(user, volume.id)


def _wait(condition, timeout=30):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.2)
