"""POST /servers: what is written down, and every way in which a request can be wrong."""
from __future__ import annotations

import base64
import uuid

import pytest

from nova_lite.context import RequestContext
from nova_lite.db import instances, models
from tests.unit.api.compute.conftest import Client, Cloud
from tests.unit.api.compute.server_support import Servers

SOMEWHERE = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def test_a_server_and_its_action_are_written_together(servers, member):
    response = member.call("POST", "/servers", servers.body(metadata={"a": "b"}, accessIPv4="192.0.2.9", accessIPv6=""))
    server = response.json_body["server"]
    assert response.status_code == 202
    assert response.headers["Location"] == f"http://localhost:8774/v2.1/servers/{server['id']}"
    assert len(server["adminPass"]) == 12
    assert server["security_groups"] == [{"name": "default"}]
    row = servers.row(server["id"])
    expected = {"vm_state": "building", "task_state": "scheduling", "project_id": "project1", "user_id": "fake",
                "display_name": "vm", "hostname": "vm", "memory_mb": 512, "vcpus": 1, "root_gb": 1, "host": None,
                "image_ref": servers.image, "flavor_ref": "m1.tiny", "metadata": {"a": "b"}, "access_ip_v4": "192.0.2.9",
                "access_ip_v6": None, "network_request": None, "availability_zone": None}
    assert {key: row[key] for key in expected} == expected
    assert row["flavor"]["extra_specs"] == {"hw:x": "1"}
    assert row["image"]["properties"] == {"os_distro": "debian"}
    (action,) = servers.actions(server["id"])
    assert (action["action"], action["state"], action["stage"], action["host"]) == ("create", "pending", "conductor", None)
    assert action["request_id"] == response.headers.get("x-compute-request-id", action["request_id"])
    assert action["lease_until"] > action["start_time"]
    assert "auth_token" not in action["context"]


def test_several_servers_are_numbered_and_share_a_reservation(servers, member):
    body = servers.body(name="web", min_count="2", max_count=3, return_reservation_id="True")
    reservation = member.post("/servers", body, 202)["reservation_id"]
    listed = member.get(f"/servers/detail?reservation_id={reservation}&sort_key=display_name&sort_dir=asc")["servers"]
    assert [s["name"] for s in listed] == ["web-1", "web-2", "web-3"]
    assert [servers.row(s["id"])["hostname"] for s in listed] == ["web-1", "web-2", "web-3"]
    assert [servers.row(s["id"])["launch_index"] for s in listed] == [0, 1, 2]
    assert all(len(servers.actions(s["id"])) == 1 for s in listed)


def test_before_there_were_descriptions_the_name_was_one(servers, member):
    for version, values, expected in (("2.1", {}, "vm"), ("2.18", {}, "vm"), ("2.19", {}, None),
                                      ("2.19", {"description": "d"}, "d")):
        server = member.at(version).post("/servers", servers.body(**values), 202)["server"]["id"]
        assert member.at("2.19").get(f"/servers/{server}")["server"]["description"] == expected


@pytest.mark.parametrize("version", ["2.90", "2.94"])
def test_a_hostname_is_for_one_server_only(servers, member, version):
    body = servers.body(networks="none", hostname="web", max_count=2)
    assert "more than one server" in member.at(version).fault("POST", "/servers", 400, body)
    assert member.get("/servers")["servers"] == []
    body["server"]["max_count"] = 1
    server = member.at(version).post("/servers", body, 202)["server"]["id"]
    assert servers.row(server)["hostname"] == "web"


def test_an_address_of_version_6_is_kept_in_its_short_form(servers, member):
    long = "0000:0000:0000:0000:0000:babe:220.12.22.2"        # longer than the column
    server = servers.create(member, accessIPv6=long)
    assert servers.row(server)["access_ip_v6"] == "::babe:dc0c:1602"
    changed = member.put(f"/servers/{server}", {"server": {"accessIPv6": "2001:DB8:0::1"}})["server"]
    assert changed["accessIPv6"] == "2001:db8::1"


@pytest.mark.parametrize(("name", "hostname"), [
    ("My Server_1.x", "my-server-1-x"), ("-a-", "a"), ("x" * 80, "x" * 63), ("caf\u00e9", "caf")])
def test_host_names_are_made_of_names(servers, member, name, hostname):
    assert servers.row(servers.create(member, name=name))["hostname"] == hostname


def test_a_name_without_any_letter_of_a_host_name_gives_one_of_the_id(servers, member):
    server = servers.create(member, name="\u4e2d\u6587")
    assert servers.row(server)["hostname"] == f"server-{server}"


def test_newer_properties(servers, member, admin):
    body = servers.body(networks="auto", description="d", tags=["x", "y", "x"], hostname="h1.example.org",
                        trusted_image_certificates=None, host="host1", config_drive="yes")
    body["os:scheduler_hints"] = {"same_host": str(uuid.uuid4())}
    server = admin.at("2.104").post("/servers", body, 202)["server"]["id"]
    shown = admin.at("2.104").get(f"/servers/{server}")["server"]
    assert shown["description"] == "d"
    assert shown["tags"] == ["x", "y"]
    assert shown["OS-EXT-SRV-ATTR:hostname"] == "h1.example.org"
    assert shown["trusted_image_certificates"] is None
    assert shown["config_drive"] == "True"
    assert shown["scheduler_hints"] == {"same_host": [body["os:scheduler_hints"]["same_host"]]}
    assert shown["pinned_availability_zone"] is None
    row = servers.row(server)
    assert row["requested_destination"] == {"host": "host1", "node": None, "force": False}
    assert row["network_request"] == "auto"


def test_zone_with_a_host_forces_it_for_admins_only(servers, member, admin):
    body = servers.body(availability_zone="nova:host9")
    assert "create:forced_host" in member.fault("POST", "/servers", 403, body)
    server = admin.post("/servers", body, 202)["server"]["id"]
    row = servers.row(server)
    assert row["requested_destination"] == {"host": "host9", "node": None, "force": True}
    assert (row["availability_zone"], row["pinned_availability_zone"]) == ("nova", "nova")


@pytest.mark.parametrize(("asked", "zone"), [
    ("west:host2", "west"), ("nova:host2", "west"), (":host2", "west"), ("mars:host2", "west"), ("west:host1", None),
    ("mars:host1", None), (":host1", None), ("nova:host1", "nova"), ("nova:host1:host1", "nova"), ("west::host2", None)])
def test_a_forced_host_wins_over_the_zone(servers, cloud, admin, asked, zone):
    cloud.add_service("host2", disabled=True)       # a zone without a host that takes servers does not matter then
    number = cloud.insert(models.aggregates, uuid="a", name="a", metadata={"availability_zone": "west"})
    cloud.db.write(lambda c: c.execute(models.aggregate_hosts.insert().values(aggregate_id=number, host="host2")))
    server = admin.post("/servers", servers.body(availability_zone=asked), 202)["server"]["id"]
    row = servers.row(server)
    assert (row["availability_zone"], row["pinned_availability_zone"]) == (zone, zone)
    assert row["requested_destination"]["force"] is True


def test_a_key_goes_with_the_server(servers, cloud, member):
    cloud.insert(models.key_pairs, name="k", user_id="fake", type="ssh", fingerprint="f", public_key="ssh-rsa AAA")
    assert servers.row(servers.create(member, key_name="k"))["keypair"] == {
        "name": "k", "type": "ssh", "public_key": "ssh-rsa AAA"}


def test_password_of_the_user_is_kept_and_may_be_disabled(servers, member):
    assert member.post("/servers", servers.body(adminPass="secret"), 202)["server"]["adminPass"] == "secret"
    assert member.post("/servers", servers.body(adminPass=""), 202)["server"]["adminPass"] == ""


@pytest.mark.parametrize(("config_drive", "kept"), [(True, ["secret"]), (False, [])])
def test_a_password_is_stored_only_where_a_config_drive_brings_it_to_the_guest(servers, member, config_drive, kept):
    server = servers.create(member, adminPass="secret", config_drive=config_drive)
    [action] = servers.actions(server)
    assert [value for name, value in action["arguments"].items() if name != "verb"] == kept


def test_trivial_block_device_mapping_is_the_image(servers, member):
    device = {"boot_index": "0", "uuid": servers.image, "source_type": "image", "destination_type": "local"}
    server = member.post("/servers", servers.body(block_device_mapping_v2=[device]), 202)["server"]["id"]
    assert servers.row(server)["image_ref"] == servers.image


def test_image_properties_that_are_shown(servers, cloud, member):
    admin = RequestContext(project_id="admin", user_id="admin", is_admin=True)
    kept = {"hw_disk_bus": "virtio", "os_distro": "debian", "img_version": 7, "architecture": "x86_64", "hw_boot_menu": True,
            "os_command_line": "é" * 200}
    hidden = {"colour": "red", "owner:note!": "x", "hw_x": "1", "os_type": None, "block_device_mapping": []}
    cloud.services.image.update(admin, servers.image, {"properties": {**kept, **hidden}})
    server, client = servers.active(member), member.at("2.98")
    expected = {**kept, "img_version": "7", "hw_boot_menu": "True", "os_command_line": "é" * 127}
    renamed = client.put(f"/servers/{server}", {"server": {"name": "new"}})["server"]
    (listed,) = client.get("/servers/detail")["servers"]
    for shown in (client.get(f"/servers/{server}")["server"], renamed, listed):
        assert shown["image"]["properties"] == expected
    assert "properties" not in member.at("2.97").get(f"/servers/{server}")["server"]["image"]


NOWHERE = str(uuid.uuid4())
WRONG = [
    ({"flavorRef": "none"}, 400, "Flavor none could not be found."),
    ({"imageRef": NOWHERE}, 400, f"Image {NOWHERE} could not be found."),
    ({"imageRef": ""}, 400, "imageRef"),
    ({"imageRef": "x"}, 400, "imageRef"),
    ({"key_name": "none"}, 400, "key_name"),
    ({"availability_zone": "mars"}, 400, "The requested availability zone is not available"),
    ({"availability_zone": "a:b:c:d"}, 400, "Unable to parse availability_zone"),
    ({"networks": [{"uuid": NOWHERE}]}, 400, NOWHERE),
    ({"networks": [{"port": NOWHERE}]}, 400, NOWHERE),
    ({"networks": [{}]}, 400, "Bad networks format"),
    ({"networks": [{"port": NOWHERE}], "max_count": 2}, 400, "single configured port"),
    ({"networks": [{"port": NOWHERE, "fixed_ip": "192.0.2.2"}]}, 400, "cannot be used with port"),
    ({"min_count": 3, "max_count": 2}, 400, "min_count must be <= max_count"),
    ({"min_count": 0}, 400, "min_count"),
    ({"max_count": "x"}, 400, "max_count"),
    ({"min_count": 11}, 403, "Quota exceeded for instances: Requested 11, but already used 0 of 10 instances"),
    ({"metadata": {str(n): "" for n in range(129)}}, 403, "Maximum number of metadata items exceeds 128"),
    ({"metadata": {"a": 1}}, 400, "1 is not of type 'string'"),
    ({"metadata": {"a" * 256: "x"}}, 400, "a" * 256),
    ({"name": ""}, 400, "name"),
    ({"name": " x"}, 400, "name"),
    ({"name": "x" * 256}, 400, "name"),
    ({"user_data": "no base64!"}, 400, "user_data"),
    ({"user_data": "A" * 65536}, 400, "user_data"),
    ({"personality": [{"path": "/a", "contents": "%%%"}]}, 400, "contents"),
    ({"personality": [{"path": "/a", "contents": ""}] * 6}, 403, "too many personality files"),
    ({"personality": [{"path": "/a", "contents": base64.b64encode(b"x" * 10241).decode()}]}, 403, "content too long"),
    ({"accessIPv4": "fe80::1"}, 400, "accessIPv4"),
    ({"OS-DCF:diskConfig": "OTHER"}, 400, "diskConfig"),
    ({"security_groups": [{"name": "nosuch"}]}, 400, "Security group nosuch not found"),
    ({"block_device_mapping_v2": [{"boot_index": 0, "uuid": NOWHERE, "source_type": "volume",
                                   "destination_type": "volume"}]}, 400, "Device Mapping is Invalid: failed to get volume"),
    ({"block_device_mapping": [{"volume_id": NOWHERE}]}, 400, "Block Device Mapping is Invalid: failed to get volume"),
    ({"block_device_mapping": [{"volume_id": "x"}]}, 400, "volume_id"),
    ({"unknown": 1}, 400, "unknown"),
    ({"description": "x"}, 400, "description"),
    ({"config_drive": "maybe"}, 400, "config_drive"),
]


@pytest.mark.parametrize(("values", "status", "text"), WRONG, ids=[f"{n}-{next(iter(w[0]))}" for n, w in enumerate(WRONG)])
def test_wrong_requests_name_their_cause_and_write_nothing(servers, member, values, status, text):
    assert text in member.fault("POST", "/servers", status, servers.body(**values))
    assert member.get("/servers")["servers"] == []


@pytest.mark.parametrize(("version", "values"), [
    ("2.37", {}), ("2.37", {"networks": "all"}), ("2.57", {"networks": "none", "personality": []}),
    ("2.51", {"networks": "none", "tags": ["a"]}), ("2.52", {"networks": "none", "tags": ["a/b"]}),
    ("2.52", {"networks": "none", "tags": [str(n) for n in range(51)]}), ("2.73", {"networks": "none", "host": "host1"}),
    ("2.89", {"networks": "none", "hostname": "hh"}), ("2.93", {"networks": "none", "hostname": "a.b"}),
    ("2.33", {"networks": [{"uuid": NOWHERE, "tag": "x"}], "block_device_mapping_v2": [{"tag": "x"}]}),
    ("2.37", {"networks": [{"uuid": NOWHERE, "tag": "x"}]}), ("2.1", {"networks": "none"})])
def test_properties_belong_to_their_versions(servers, member, version, values):
    message = member.at(version).fault("POST", "/servers", 400, servers.body(**values))
    assert any(word in message for word in [*values, "networks", "Additional properties", "tags", "does not match", "too long"])


def test_requested_host_is_for_admins_and_has_to_exist(servers, member, admin):
    body = servers.body(networks="none", host="host1")
    assert "requested_destination" in member.at("2.74").fault("POST", "/servers", 403, body)
    body["server"]["hypervisor_hostname"] = "other"
    assert "Compute host host1 could not be found" in admin.at("2.74").fault("POST", "/servers", 400, body)


@pytest.mark.parametrize(("flavor", "image", "text"), [
    ({"memory_mb": 64}, {"min_ram": 65}, "memory is too small"), ({"root_gb": 1}, {"min_disk": 2}, "minimum size"),
    ({"disabled": True}, {}, "could not be found"), ({"is_public": False}, {}, "could not be found")])
def test_flavor_and_image_have_to_fit(servers, cloud, member, flavor, image, text):
    name = cloud.add_flavor("other", **flavor).flavorid
    admin = RequestContext(project_id="admin", user_id="admin", is_admin=True)
    cloud.services.image.update(admin, servers.image, image)
    assert text in member.fault("POST", "/servers", 400, servers.body(flavorRef=name))


def test_an_image_without_data_is_refused(servers, cloud, member):
    admin = RequestContext(project_id="admin", user_id="admin", is_admin=True)
    image = cloud.services.image.create(admin, {"name": "queued", "visibility": "public"}).id
    assert member.fault("POST", "/servers", 400, servers.body(imageRef=image)) == f"Image {image} is not active."


def test_a_flavor_without_disk_is_for_admins(servers, cloud, member, admin):
    name = cloud.add_flavor("zero", root_gb=0).flavorid
    assert "zero disk" in member.fault("POST", "/servers", 403, servers.body(flavorRef=name))
    admin.post("/servers", servers.body(flavorRef=name), 202)


def group_of(cloud: Cloud, project: str = "project1") -> str:
    made = str(uuid.uuid4())
    cloud.insert(models.server_groups, uuid=made, project_id=project, user_id="fake", name="g", policy="affinity", rules={})
    return made


def test_a_security_group_may_be_named_twice(servers, member):
    body = servers.body(security_groups=[{"name": "default"}, {"name": "default"}])
    server = member.post("/servers", body, 202)["server"]
    assert server["security_groups"] == [{"name": "default"}, {"name": "default"}]
    assert servers.row(server["id"])["security_groups"] == ["default"]


@pytest.mark.parametrize("hostname", ["my_host.example.org", "x", "h" * 255])
def test_from_2_94_a_hostname_is_any_of_dns_and_its_neighbours(servers, member, hostname):
    body = servers.body(networks="none", hostname=hostname)
    server = member.at("2.94").post("/servers", body, 202)["server"]["id"]
    assert servers.row(server)["hostname"] == hostname
    member.at("2.93").post("/servers", body, 400)


@pytest.mark.parametrize("hostname", ["", "h" * 256, "my host", "a/b"])
def test_hostnames_that_are_refused(servers, member, hostname):
    member.at("2.94").post("/servers", servers.body(networks="none", hostname=hostname), 400)


def test_a_server_joins_the_group_of_its_hint(servers, cloud, member):
    group = group_of(cloud)
    body = {**servers.body(networks="none", max_count=2), "os:scheduler_hints": {"group": group}}
    server = member.at("2.71").post("/servers", body, 202)["server"]["id"]
    assert member.at("2.71").get(f"/servers/{server}")["server"]["server_groups"] == [group]
    assert member.at("2.100").get(f"/servers/{server}")["server"]["scheduler_hints"] == {"group": [group]}
    for shown in member.at("2.100").get("/servers/detail")["servers"]:
        assert shown["scheduler_hints"] == {"group": [group]}
    body["server"]["max_count"] = 9
    body["server"]["min_count"] = 1
    cloud.db.write(lambda c: c.execute(models.quotas.insert().values(
        project_id="project1", user_id="", resource="server_group_members", hard_limit=3)))
    assert "too many servers in group" in member.at("2.71").fault("POST", "/servers", 403, body)


def test_unknown_groups_and_those_of_others_are_refused(servers, cloud, member):
    for group in (str(uuid.uuid4()), group_of(cloud, "other")):
        body = {**servers.body(), "os:scheduler_hints": {"group": group}}
        assert f"Instance group {group} could not be found" in member.fault("POST", "/servers", 400, body)


@pytest.mark.parametrize(("hint", "code"), [("no uuid", 202), (["no uuid"], 400), ("\0", 400), (SOMEWHERE, 202),
                                            ([SOMEWHERE], 202), (7, 400)])
def test_what_same_host_may_be(servers, member, hint, code):
    answer = member.call("POST", "/servers", {**servers.body(), "os:scheduler_hints": {"same_host": hint}})
    assert answer.status_code == code


def test_max_count_is_cut_to_the_quota(servers, member):
    member.post("/servers", servers.body(min_count=1, max_count=50), 202)
    assert len(member.get("/servers")["servers"]) == 10
    assert "Quota exceeded for instances" in member.fault("POST", "/servers", 403, servers.body())


def test_cores_and_ram_count_too(servers, cloud, member):
    cloud.add_flavor("wide", vcpus=11)
    servers.create(member, flavorRef="wide")
    assert member.fault("POST", "/servers", 403, servers.body(flavorRef="wide")) == (
        "Quota exceeded for cores: Requested 11, but already used 11 of 20 cores")


def test_readers_may_not_create(servers, cloud):
    reader: Client = cloud.client("r", "project1", ("reader",))
    assert "os_compute_api:servers:create" in reader.fault("POST", "/servers", 403, servers.body())


def test_a_broker_that_is_down_fails_no_request(servers, cloud, member, monkeypatch):
    def broken(*_args: object) -> None:
        raise ConnectionError("no broker")
    monkeypatch.setattr(cloud.services.compute.conductor_rpc, "schedule_and_build_instances", broken)
    server = servers.create(member)
    assert servers.actions(server)[0]["state"] == "pending"
    with cloud.db.read() as connection:
        assert instances.get(connection, server).task_state == "scheduling"
