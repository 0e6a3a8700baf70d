"""The stock ``openstack`` command against the standalone cloud, as the README tells a user to use it."""
from __future__ import annotations

import pytest

from tests.support.openstack_cli import Openstack, tour, volume_tour


@pytest.fixture(scope="session")
def openstack(standalone):
    client = Openstack(standalone.directory / "state" / "clouds.yaml")
    yield client
    client.close()


def test_a_tour_of_the_compute_commands(openstack, tmp_path):
    tour(openstack, tmp_path)


def test_a_tour_of_the_volume_commands(openstack):
    volume_tour(openstack)


def test_a_tour_of_the_security_group_commands(openstack):
    made = openstack("security", "group", "create", "--description", "for all", "web")
    assert (made["name"], made["description"]) == ("web", "for all")
    rule = openstack("security", "group", "rule", "create", "--protocol", "tcp", "--dst-port", "80:81", "web")
    assert (rule["protocol"], rule["port_range_min"], rule["port_range_max"], rule["remote_ip_prefix"]) == (
        "tcp", 80, 81, "0.0.0.0/0")
    ping = openstack("security", "group", "rule", "create", "--protocol", "icmp", "--icmp-type", "8", "--remote-group", "web",
                     made["id"])
    assert ping["remote_group_id"] == made["id"]
    listed = openstack("security", "group", "rule", "list", "web")
    assert {rule["id"], ping["id"]} < {one["ID"] for one in listed}
    assert openstack("security", "group", "rule", "show", rule["id"])["security_group_id"] == made["id"]
    openstack("security", "group", "rule", "delete", rule["id"], ping["id"], parse=False)
    openstack("security", "group", "set", "--name", "www", "web", parse=False)
    shown = openstack("security", "group", "show", "www")
    assert {one["direction"] for one in shown["rules"]} == {"egress"}
    assert {"default", "www"} <= {one["Name"] for one in openstack("security", "group", "list")}
    openstack("security", "group", "delete", "www", parse=False)
    assert "www" not in {one["Name"] for one in openstack("security", "group", "list")}


@pytest.mark.parametrize("arguments", [
    ("flavor", "list"), ("keypair", "list"), ("hypervisor", "list"), ("compute", "service", "list"), ("aggregate", "list"),
    ("availability", "zone", "list", "--compute"), ("server", "group", "list"), ("limits", "show", "--absolute"),
    ("quota", "show", "--compute"), ("image", "list"), ("network", "list"), ("project", "list"), ("catalog", "list"),
    ("quota", "show"), ("quota", "show", "--network", "--usage"), ("floating", "ip", "list"), ("router", "list"),
    ("subnet", "list"), ("versions", "show"), ("limits", "show", "--reserved", "--absolute"), ("quota", "show", "--volume"),
    ("volume", "type", "list"), ("volume", "snapshot", "list"), ("availability", "zone", "list", "--volume"),
    ("volume", "attachment", "list", "--os-volume-api-version", "3.27")], ids=" ".join)
def test_list_commands(openstack, arguments):
    assert isinstance(openstack(*arguments), (list, dict))
