"""The documents of the config drive."""
from __future__ import annotations

import base64
import json

import pytest

from nova_lite import exception
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FixedIP
from nova_lite.virt import guest_metadata

UUID, PORT = "11111111-1111-4111-8111-111111111111", "33333333-3333-4333-8333-333333333333"


def _instance(**values) -> Instance:
    return Instance(uuid=UUID, id=1, project_id="p", user_id="u", display_name="Näme", hostname="name",
                    flavor=Flavor("1", "m1.tiny", 64, 1, 1), **values)


def _vif(dhcp: bool, **values) -> VIF:
    address = FixedIP("10.0.0.5", 4, "10.0.0.0/24", "10.0.0.1", ["9.9.9.9"],
                      [{"cidr": "169.254.169.254/32", "gateway": "10.0.0.1"}])
    return VIF(PORT, "net", "private", "fa:16:3e:00:00:01", "bridge", [address], mtu=1450, details={"dhcp": dhcp}, **values)


def _json(documents, path):
    return json.loads(documents[path])


def test_paths_of_a_config_drive():
    documents = guest_metadata.build(_instance(), [_vif(True)])
    assert {f"openstack/latest/{n}" for n in ("meta_data.json", "network_data.json", "vendor_data.json", "vendor_data2.json")
            } | {"ec2/latest/meta-data.json", "openstack/2015-10-15/network_data.json"} <= documents.keys()
    assert not [p for p in documents if "user" in p or p.startswith("/")]


def test_user_data_password_and_files_are_on_the_drive():
    documents = guest_metadata.build(
        _instance(user_data=base64.b64encode(b"#!/bin/sh").decode()), [], admin_password="hidden",
        injected_files=[{"path": "/etc/motd", "contents": base64.b64encode(b"hi").decode()}])
    assert documents["openstack/latest/user_data"] == documents["ec2/latest/user-data"] == b"#!/bin/sh"
    metadata = _json(documents, "openstack/latest/meta_data.json")
    assert metadata["admin_pass"] == "hidden"
    assert metadata["files"] == [{"content_path": "/content/0000", "path": "/etc/motd"}]
    assert documents["openstack/content/0000"] == b"hi"


def test_bad_user_data_is_an_input_error():
    with pytest.raises(exception.InvalidInput):
        guest_metadata.build(_instance(user_data="a"), [])


def test_the_same_input_gives_the_same_documents():
    assert guest_metadata.build(_instance(), [], random_seed=b"s") == guest_metadata.build(_instance(), [], random_seed=b"s")
    assert guest_metadata.build(_instance(), []) != guest_metadata.build(_instance(), [])


def test_network_data_of_a_dhcp_nic_leaves_the_address_to_dhcp():
    data = guest_metadata.network_data([_vif(True)])
    assert data["links"] == [{"id": "tap33333333-33", "vif_id": PORT, "type": "bridge", "mtu": 1450,
                              "ethernet_mac_address": "fa:16:3e:00:00:01"}]
    assert data["networks"] == [{"id": "network0", "type": "ipv4_dhcp", "link": "tap33333333-33", "network_id": "net"}]
    assert data["services"] == [{"type": "dns", "address": "9.9.9.9"}]


def test_network_data_of_a_static_nic_says_all():
    network = guest_metadata.network_data([_vif(False), _vif(False)])["networks"][1]
    assert (network["id"], network["type"], network["ip_address"], network["netmask"]) == (
        "network1", "ipv4", "10.0.0.5", "255.255.255.0")
    assert network["routes"] == [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.0.1"},
                                 {"network": "169.254.169.254", "netmask": "255.255.255.255", "gateway": "10.0.0.1"}]


def test_tagged_nics_are_devices_since_2016():
    documents = guest_metadata.build(_instance(), [_vif(True, tag="blue"), _vif(True)])
    assert _json(documents, "openstack/2016-06-30/meta_data.json")["devices"] == [
        {"type": "nic", "bus": "none", "address": "none", "mac": "fa:16:3e:00:00:01", "tags": ["blue"]}]
    assert "devices" not in _json(documents, "openstack/2015-10-15/meta_data.json")


def test_tagged_disks_are_devices_too():
    disks = [BlockDevice("d1", "volume", volume_id="v1", device_name="/dev/vdc", tag="data"),
             BlockDevice("d2", "volume", volume_id="v2", disk_bus="scsi", tag="more"),
             BlockDevice("d3", "volume", volume_id="v3"), BlockDevice("d4", "blank", "local", tag="scratch")]
    documents = guest_metadata.build(_instance(block_devices=disks), [_vif(True, tag="blue")])
    nic, one, two, blank = _json(documents, "openstack/2016-06-30/meta_data.json")["devices"]
    assert nic["type"] == "nic"
    assert one == {"type": "disk", "bus": "pci", "address": "none", "tags": ["data"], "serial": "v1", "path": "/dev/vdc"}
    assert two == {"type": "disk", "bus": "scsi", "address": "none", "tags": ["more"], "serial": "v2", "path": "/dev/sda"}
    assert blank == {"type": "disk", "bus": "pci", "address": "none", "tags": ["scratch"]}
    assert "devices" not in _json(documents, "openstack/2015-10-15/meta_data.json")


def test_a_tagged_disk_of_the_hosts_own_is_told_as_the_guest_finds_it():
    made = _instance(block_devices=[BlockDevice("d1", "blank", "local", size=1, disk_bus="scsi", tag="scratch")],
                     system_metadata={"device_addresses": {"d1": "0:0:0:1"}})
    made.flavor.ephemeral_gb = 1
    [told] = guest_metadata.meta_data(made, [], "latest", b"")["devices"]
    assert told == {"type": "disk", "bus": "scsi", "address": "0:0:0:1", "tags": ["scratch"], "path": "/dev/sda"}


def test_a_tagged_device_is_told_with_its_address():
    """From the server's record, or as the host has just learned them."""
    disks = [BlockDevice("d1", "volume", volume_id="v1", device_name="/dev/vdc", tag="data")]
    addresses = {"d1": "0000:05:00.0", "fa:16:3e:00:00:01": "0000:02:00.0"}
    noted = _instance(block_devices=disks, system_metadata={"device_addresses": addresses})
    for documents in (guest_metadata.build(noted, [_vif(True, tag="blue")]),
                      guest_metadata.build(_instance(block_devices=disks), [_vif(True, tag="blue")], addresses=addresses)):
        nic, disk = _json(documents, "openstack/latest/meta_data.json")["devices"]
        assert (nic["bus"], nic["address"]) == ("pci", "0000:02:00.0")
        assert (disk["bus"], disk["address"]) == ("pci", "0000:05:00.0")


def test_vendor_data_is_on_the_drive():
    documents = guest_metadata.build(_instance(), [], vendor_data={"a": 1})
    assert _json(documents, "openstack/latest/vendor_data.json") == {"a": 1}
    assert _json(documents, "openstack/latest/vendor_data2.json") == {"static": {"a": 1}}


@pytest.mark.parametrize(("fixed_ip", "kind", "told"), [
    (FixedIP("10.0.0.5", 4, "10.0.0.0/24", dhcp=True), "ipv4_dhcp", False),
    (FixedIP("10.0.0.5", 4, "10.0.0.0/24", dhcp=False), "ipv4", True),
    (FixedIP("2001:db8::5", 6, "2001:db8::/64", "2001:db8::1", dhcp=True), "ipv6_dhcp", False),
    (FixedIP("2001:db8::5", 6, "2001:db8::/64", "2001:db8::1", dhcp=True, ipv6_address_mode="slaac"), "ipv6_slaac", True),
    (FixedIP("2001:db8::5", 6, "2001:db8::/64", "2001:db8::1", dhcp=True, ipv6_address_mode="dhcpv6-stateful"),
     "ipv6_dhcpv6-stateful", True),
    (FixedIP("2001:db8::5", 6, "2001:db8::/64", "2001:db8::1"), "ipv6", True)])
def test_how_an_address_comes_to_the_guest_is_its_type(fixed_ip, kind, told):
    vif = VIF(PORT, "net", "private", "fa:16:3e:00:00:01", "ovs", [fixed_ip])
    [network] = guest_metadata.network_data([vif])["networks"]
    assert network["type"] == kind
    assert ("ip_address" in network) is told


def test_routes_and_resolvers_of_an_ipv6_subnet():
    address = FixedIP("2001:db8::5", 6, "2001:db8::/64", "2001:db8::1", ["2001:db8::53"],
                      [{"cidr": "2001:db8:1::/48", "gateway": "2001:db8::2"}])
    data = guest_metadata.network_data([VIF(PORT, "net", "private", "fa:16:3e:00:00:01", "ovs", [address])])
    [network] = data["networks"]
    assert network["netmask"] == "ffff:ffff:ffff:ffff::"
    assert network["routes"] == [{"network": "::", "netmask": "::", "gateway": "2001:db8::1"},
                                 {"network": "2001:db8:1::", "netmask": "ffff:ffff:ffff::", "gateway": "2001:db8::2"}]
    assert network["services"] == data["services"] == [{"type": "dns", "address": "2001:db8::53"}]


def test_ec2_names_the_disks():
    disks = [BlockDevice("d3", "volume", volume_id="v"), BlockDevice("d4", "volume", volume_id="w", device_name="/dev/vde")]
    server = _instance(block_devices=disks, root_device_name="/dev/vda")
    server.flavor = Flavor("2", "large", 64, 1, 1, ephemeral_gb=1, swap=64)
    documents = guest_metadata.build(server, [])
    assert _json(documents, "ec2/latest/meta-data.json")["block-device-mapping"] == {
        "ami": "vda", "root": "/dev/vda", "ephemeral0": "vdb", "swap": "vdc", "ebs0": "vdd", "ebs1": "vde"}
    server.block_devices = [BlockDevice(name, "blank", "local", size=1) for name in ("e1", "e2")]
    documents = guest_metadata.build(server, [])
    assert _json(documents, "ec2/latest/meta-data.json")["block-device-mapping"] == {
        "ami": "vda", "root": "/dev/vda", "ephemeral0": "vdb", "ephemeral1": "vdc", "swap": "vdd"}
