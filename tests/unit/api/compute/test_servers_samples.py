"""The answers about servers have the keys of Nova's own samples, at each microversion at which those change."""
from __future__ import annotations

import json
import pathlib

import pytest

from nova_lite.api.compute.schemas import servers_response
from nova_lite.api.openstack import validation
from nova_lite.db import models
from tests.unit.api.compute.conftest import Client, Cloud, key_paths
from tests.unit.api.compute.server_support import Servers

SAMPLES = json.loads((pathlib.Path(__file__).parent / "server_sample_keys.json").read_text())


def cases(sample: str) -> list[tuple[str, str]]:
    return [(sample, version) for version in SAMPLES[sample]]


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def caller(sample: str, version: str, member: Client, admin: Client) -> Client:
    """Nova made some of its samples as an admin and some as a plain user."""
    made_by_admin = any(key.endswith("OS-EXT-SRV-ATTR:host") for key in SAMPLES[sample][version])
    return (admin if made_by_admin else member).at(version)


def fixed(keys: set[str]) -> set[str]:
    """Without the keys that images and users choose, and with no attached volume."""
    free = (".properties.", ".scheduler_hints.")
    return {key for key in keys if not any(word in key for word in free)}


def compare(answer: object, sample: str, version: str) -> None:
    assert fixed(key_paths(answer)) == fixed(set(SAMPLES[sample][version]))


@pytest.mark.parametrize(("sample", "version"), cases("servers/server-get-resp"))
def test_show(servers, member, admin, sample, version):
    client = caller(sample, version, member, admin)
    compare(client.get(f"/servers/{servers.active(client)}"), sample, version)


@pytest.mark.parametrize(("sample", "version"), cases("servers/servers-details-resp"))
def test_detail(servers, member, admin, sample, version):
    client = caller(sample, version, member, admin)
    servers.active(client)
    servers.active(client)
    query = "?limit=1" if "servers_links" in SAMPLES[sample][version] else ""
    compare(client.get(f"/servers/detail{query}"), sample, version)


@pytest.mark.parametrize(("sample", "version"), cases("servers/servers-list-resp"))
def test_list(servers, member, sample, version):
    servers.active(member)
    query = "?limit=1" if "servers_links" in SAMPLES[sample][version] else ""
    compare(member.at(version).get(f"/servers{query}"), sample, version)


@pytest.mark.parametrize(("sample", "version"), cases("servers/server-update-resp"))
def test_update(servers, member, admin, sample, version):
    client = caller(sample, version, member, admin)
    compare(client.put(f"/servers/{servers.active(client)}", {"server": {"name": "new"}}), sample, version)


@pytest.mark.parametrize(("sample", "version"), cases("servers/server-create-resp"))
def test_create(servers, member, sample, version):
    networks = {} if int(version[2:]) < 37 else {"networks": "none"}
    compare(member.at(version).post("/servers", servers.body(**networks), 202), sample, version)


@pytest.mark.parametrize("sample", ["instance-action-get-resp", "instance-action-get-non-admin-resp",
                                    "instance-actions-list-resp", "instance-actions-list-with-limit-resp"])
def test_instance_actions(servers, cloud, member, admin, sample):
    client = member if "non-admin" in sample else admin
    server = servers.active(client)
    client.post(f"/servers/{server}/action", {"os-stop": None}, 202)
    action = servers.actions(server)[-1]
    cloud.insert(models.instance_action_events, action_id=action["id"], event="compute_stop_instance", host="host1",
                 start_time=action["start_time"], finish_time=action["start_time"], result="Success")
    path = f"/servers/{server}/os-instance-actions"
    path += "" if "actions-list" in sample else f"/{action['request_id']}"
    path += "?limit=1" if "limit" in sample else ""
    for _, version in cases(f"os-instance-actions/{sample}"):
        compare(client.at(version).get(path), f"os-instance-actions/{sample}", version)


@pytest.mark.parametrize("change", [
    lambda server: server.pop("OS-EXT-SRV-ATTR:kernel_id"), lambda server: server.update(status="BUSY"),
    lambda server: server["scheduler_hints"].update(same_host="x")])
def test_a_view_that_is_not_whole_is_found(servers, admin, change):
    answer = admin.at("2.100").get(f"/servers/{servers.active(admin)}")
    schema = validation.Validator(servers_response.SHOW["2.100"])
    schema.check(answer)
    change(answer["server"])
    assert schema.error(answer) is not None


def test_metadata_and_addresses(servers, member):
    server = servers.active(member, metadata={"foo": "bar"})
    compare(member.get(f"/servers/{server}/metadata"), "server-metadata/server-metadata-all-resp", "2.1")
    compare(member.get(f"/servers/{server}/ips"), "server-ips/server-ips-resp", "2.1")
