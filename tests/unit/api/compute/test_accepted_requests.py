"""What the schemas of requests take and refuse, as Nova 34 does: differences that a comparison of all schemas has found."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.api.compute.schemas.aggregates import CREATE as CREATE_AGGREGATE
from nova_lite.api.openstack.validation import Validator
from tests.unit.api.compute.conftest import Client, Cloud

QUERIES = [
    # several moments are taken, the last one counts
    ("2.1", "/servers?changes-since=2020-01-01T00:00:00Z&changes-since=2021-01-01T00:00:00Z", 200),
    ("2.66", "/servers?changes-before=2020-01-01T00:00:00Z&changes-before=2021-01-01T00:00:00Z", 200),
    ("2.66", "/servers/{server}/os-instance-actions?changes-before=2020-01-01T00:00:00Z", 200),
    ("2.66", "/servers/{server}/os-instance-actions?changes-before=2020-01-01T00:00:00Z&changes-before=2021-01-01T00:00:00Z",
     400),
    # filters that are expressions: not empty, not broken
    *[("2.1", f"/servers?{name}=", 400) for name in ("name", "ip", "key_name", "power_state", "created_at", "node")],
    *[("2.1", f"/servers?{name}=%28", 400) for name in ("key_name", "flavor", "launched_at", "progress")],
    # names of tags are none
    *[("2.26", f"/servers?{name}=", 400) for name in ("tags", "tags-any", "not-tags", "not-tags-any")],
    ("2.26", "/servers?tags=%5B", 200), ("2.26", "/servers?tags=a,b", 200), ("2.1", "/servers?power_state=1", 200),
    ("2.1", "/servers?status=&host=&uuid=", 200),
    # hypervisors: strict from 2.53 on, each parameter once
    ("2.52", "/os-hypervisors?unknown=1", 200), ("2.53", "/os-hypervisors?unknown=1", 400),
    ("2.53", "/os-hypervisors/detail?unknown=1", 400), ("2.53", "/os-hypervisors/statistics?unknown=1", 200),
    ("2.33", "/os-hypervisors?limit=1&limit=2", 200), ("2.53", "/os-hypervisors?limit=1&limit=2", 400),
    ("2.53", "/os-hypervisors?marker=a&marker=b", 400),
    ("2.53", "/os-hypervisors?hypervisor_hostname_pattern=a%20b", 400),
    # limits: "reserved" is a parameter of long ago
    ("2.74", "/limits?reserved=1", 200), ("2.75", "/limits?reserved=1", 400),
    # images: pages of at least one
    *[("2.1", f"/images?{name}={value}", 400) for name in ("limit", "page_size", "offset") for value in ("0", "x", "-1")],
    ("2.1", "/images?limit=1&page_size=1&offset=1", 200)]


@pytest.mark.parametrize(("version", "path", "status"), QUERIES)
def test_queries(cloud: Cloud, admin: Client, version: str, path: str, status: int) -> None:
    cloud.add_node("host1")
    server = cloud.add_server()
    admin.at(version).get(path.format(server=server), status)


FLAVOR = {"name": "f", "ram": 1, "vcpus": 1, "disk": 1}
UUID = "6f70656e-7374-6163-6b20-342065766572"


@pytest.mark.parametrize(("flavor", "status"), [
    ({"id": -1}, 200), ({"id": 1.5}, 200), ({"id": None}, 200), ({"id": ""}, 400), ({"id": 2 ** 64}, 400),
    ({"os-flavor-access:is_public": "yes"}, 200), ({"os-flavor-access:is_public": "y"}, 400),
    ({"os-flavor-access:is_public": "f"}, 400), ({"name": "a\u3000b"}, 200), ({"name": "a\u00a0b"}, 200),
    ({"name": "\u00a0b"}, 400), ({"name": "a\u2028b"}, 400), ({"description": "a\u00a0b"}, 200),
    ({"description": "a\nb"}, 400), ({"description": "a\tb"}, 400), ({"description": " "}, 200)])
def test_new_flavors(admin: Client, flavor: dict[str, object], status: int) -> None:
    made = admin.at("2.55").ask("POST", "/flavors", {"flavor": {**FLAVOR, **flavor}}, status)
    if flavor.get("id") is not None and status == 200:
        assert made["flavor"]["id"] == str(flavor["id"])


def test_extra_specs_of_digits_and_none_at_all(admin: Client, cloud: Cloud) -> None:
    admin.ask("POST", "/flavors", {"flavor": {**FLAVOR, "id": "9"}})
    number = {"extra_specs": {"serial": "123456789012345678901234567890"}}
    assert admin.ask("POST", "/flavors/9/os-extra_specs", number) == number
    assert admin.ask("POST", "/flavors/9/os-extra_specs", {"extra_specs": {}}) == {"extra_specs": {}}
    assert admin.get("/flavors/9/os-extra_specs") == number


def test_blanks_around_the_new_name_of_an_aggregate(admin: Client) -> None:
    made = admin.ask("POST", "/os-aggregates", {"aggregate": {"name": "a"}})["aggregate"]
    path = f"/os-aggregates/{made['id']}"
    assert admin.ask("PUT", path, {"aggregate": {"name": " b "}})["aggregate"]["name"] == "b"
    admin.ask("PUT", path, {"aggregate": {"name": "  "}}, 400)
    admin.ask("POST", "/os-aggregates", {"aggregate": {"name": " c "}}, 400)


@pytest.mark.parametrize(("version", "action", "status"), [
    ("2.1", {"rebuild": {"imageRef": f"http://glance/images/{UUID}"}}, 400),
    ("2.1", {"rescue": {"rescue_image_ref": f"http://glance/images/{UUID}"}}, 400),
    ("2.1", {"os-migrateLive": {"host": None, "block_migration": "y", "disk_over_commit": False}}, 400)])
def test_refused_actions(cloud: Cloud, admin: Client, version: str, action: dict[str, object], status: int) -> None:
    admin.at(version).ask("POST", f"/servers/{cloud.add_server()}/action", action, status)


def test_unshelve_without_a_place(cloud: Cloud, admin: Client) -> None:
    server = cloud.add_server()
    # past the schema: it is not shelved
    admin.at("2.91").ask("POST", f"/servers/{server}/action", {"unshelve": {}}, 409)
    admin.at("2.77").ask("POST", f"/servers/{server}/action", {"unshelve": {}}, 400)


def test_refused_servers_and_quotas(cloud: Cloud, admin: Client) -> None:
    server = {"name": "s", "flavorRef": "1", "imageRef": UUID}
    for name, more in (("config_drive", {"config_drive": "t"}), ("accessIPv6", {"accessIPv6": "fe80::1%eth0"}),
                       ("fixed_ip", {"networks": [{"uuid": UUID, "fixed_ip": "fe80::1%eth0"}]})):
        fault = admin.fault("POST", "/servers", 400, {"server": {**server, **more}})
        assert fault.startswith(f"Invalid input for field/attribute {name}.")
    for name, hints in (("query", {"query": []}), ("0", {"different_cell": [1]})):
        fault = admin.fault("POST", "/servers", 400, {"server": server, "os:scheduler_hints": hints})
        assert fault.startswith(f"Invalid input for field/attribute {name}.")
    admin.ask("PUT", "/os-quota-sets/p", {"quota_set": {"cores": 5, "tenant_id": "p"}}, 400)


@pytest.mark.parametrize(("body", "status"), [(None, 201), ({}, 400), ({"tag": "t"}, 400)])
def test_a_new_tag_has_no_body(cloud: Cloud, admin: Client, body: object, status: int) -> None:
    admin.at("2.26").ask("PUT", f"/servers/{cloud.add_server()}/tags/t", body, status)


def test_v2_takes_blanks_around_names() -> None:
    body = {"aggregate": {"name": " a ", "availability_zone": " z ", "more": 1}}
    assert Validator(CREATE_AGGREGATE).error(body) is not None
    Validator(CREATE_AGGREGATE, relaxed=True).check(body)
    assert body == {"aggregate": {"name": "a", "availability_zone": "z"}}
    with pytest.raises(exception.ValidationError):
        Validator(CREATE_AGGREGATE, relaxed=True).check({"aggregate": {"name": "  "}})
