"""GET /servers: filters, order, pages, tenants, and how many statements it takes."""
from __future__ import annotations

import datetime
from urllib.parse import quote

import pytest

from nova_lite import units
from nova_lite.db import instance_list
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def names(client, query: str = "", path: str = "/servers") -> list[str]:
    return [s["name"] for s in client.get(f"{path}?{query}")["servers"]]


def test_newest_first_and_pages_follow_each_other(servers, member):
    for number in range(5):
        servers.create(member, name=f"s{number}")
    assert names(member) == ["s4", "s3", "s2", "s1", "s0"]
    path, seen = "/servers?limit=2", []
    while path:
        answer = member.get(path)
        seen += [s["name"] for s in answer["servers"]]
        (link,) = answer.get("servers_links", [{"href": ""}])
        path = link["href"].partition("/v2.1")[2]
    assert seen == ["s4", "s3", "s2", "s1", "s0"]
    assert names(member, "limit=0") == []


def test_pages_by_a_column_with_gaps(servers, member):
    for number, key in enumerate(["b", None, "a", None, "c"]):
        servers.set(servers.create(member, name=f"s{number}"), key_name=key)
    for query, expected in (("sort_key=key_name&sort_dir=asc&sort_key=display_name&sort_dir=asc",
                             ["s1", "s3", "s2", "s0", "s4"]),
                            ("sort_key=key_name&sort_dir=desc&sort_key=display_name&sort_dir=asc",
                             ["s4", "s0", "s2", "s1", "s3"])):
        assert names(member, query) == expected
        seen: list[str] = []
        marker = ""
        while True:
            page = member.get(f"/servers?{query}&limit=1{marker}")["servers"]
            if not page:
                break
            seen.append(page[0]["name"])
            marker = f"&marker={page[0]['id']}"
        assert seen == expected


def test_filters(servers, member):
    one, two = servers.create(member, name="web-1"), servers.create(member, name="db.2")
    servers.active(member, name="cache")
    reservation = servers.row(two)["reservation_id"]
    for query, expected in (
            ("name=web", ["web-1"]), ("name=%5Edb", ["db.2"]), ("name=b.2", ["db.2"]), ("name=%5B0-9%5D%24", ["db.2", "web-1"]),
            ("status=ACTIVE", ["cache"]), ("status=build", ["db.2", "web-1"]),
            ("status=BUILD&status=ACTIVE&limit=2", ["cache", "db.2"]),
            (f"image={servers.image}", ["cache", "db.2", "web-1"]), ("image=x", []), ("flavor=m1.tiny&name=web", ["web-1"]),
            ("flavor=none", []), ("ip=192.0.2", ["cache"]), ("ip=2.0", ["cache"]), ("ip=0.2.5%24", ["cache"]),
            ("ip=%5E2.0", []), ("ip=%5E192%5C.0", ["cache"]), ("ip=%5C.5", ["cache"]), ("ip=9.2", []), ("ip=2..0", []),
            ("name=%5Ecache%24", ["cache"]), ("name=%5Eache%24", []), ("name=%5Eweb", ["web-1"]), ("name=-1%24", ["web-1"]),
            ("name=%5Ew%25", []), ("name=%5Ew_b", []), ("name=%5E%24", []), ("name=%5E", ["cache", "db.2", "web-1"]),
            ("name=%5Ec.*%24", ["cache"]), ("name=%5B(*)%7Ca-z%5D%2Bche", ["cache"]),
            (f"reservation_id={reservation}", ["db.2"]),
            ("vm_state=active", ["cache", "db.2", "web-1"]), ("host=host1", ["cache", "db.2", "web-1"])):
        assert names(member, query) == expected, query
    assert servers.row(one)["id"] < servers.row(two)["id"]


@pytest.mark.parametrize("column", ["ip", "ip6", "name", "hostname"])
@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)a", "(.{1,200}){1,200}"])
def test_an_expression_that_has_no_linear_time_is_refused(servers, cloud, pattern, column):
    admin = cloud.client("admin", "project1", ("admin",), "2.96")
    servers.active(admin, name="a" * 60)
    assert "regular expression" in admin.fault("GET", f"/servers?{column}={quote(pattern)}", 400)


def test_other_databases_take_every_expression():
    query = instance_list.Query(patterns={"display_name": "^(web|db)-.*.*.*.*$"})
    for name in ("mysql", "postgresql"):
        (condition, _) = instance_list._conditions(query, name)
        assert "(web|db)" in str(condition.compile(compile_kwargs={"literal_binds": True}))


def test_ip6_and_pages_over_filtered_rows(servers, member):
    for number in range(4):
        server = servers.active(member, name=f"s{number}")
        servers.set(server, network_info=[servers.vif("2001:db8::1" if number % 2 else "192.0.2.1")])
    assert names(member.at("2.5"), "ip6=2001:") == ["s3", "s1"]
    assert names(member.at("2.5"), "ip6=2001:&limit=1") == ["s3"]
    assert len(names(member.at("2.4"), "ip6=2001:")) == 4


def test_addresses_of_both_kinds(servers, member):
    for name, address in (("a", "192.0.2.1"), ("b", "2001:db8::1"), ("c", "192.0.2.7")):
        servers.set(servers.active(member, name=name), network_info=[servers.vif(address)])
    member = member.at("2.5")
    assert names(member, "ip=2.1&ip6=db8") == ["b", "a"]
    assert names(member, "ip=db8&ip6=192") == []
    assert names(member, "ip6=DB8") == []
    assert names(member, "ip=2%5C.%5B17%5D&ip6=db8") == ["c", "b", "a"]


def test_addresses_too_many_for_the_index_and_those_that_an_older_service_wrote(servers, member):
    many = [servers.vif(f"2001:db8:1111:2222:3333:4444:5555:{number}") for number in range(1000, 1010)]
    servers.set(servers.active(member, name="many"), network_info=many)
    old = servers.active(member, name="old")
    servers.set(old, network_info=[servers.vif("192.0.2.77")])
    servers.set(old, addresses="*")
    servers.set(servers.active(member, name="none"), network_info=[])
    member = member.at("2.5")
    assert names(member, "ip6=5555:1009") == ["many"]
    assert names(member, "ip6=5555:1010") == []
    assert names(member, "ip=%5E192.0.2.77%24") == ["old"]
    assert names(member, "ip=.") == ["old"]
    assert names(member, "ip=.&ip6=.") == ["old", "many"]


def test_an_id_and_an_address_are_both_compared(servers, member, admin):
    server = servers.active(member, name="one")
    query = f"all_tenants=1&uuid={server}&ip="
    assert names(admin, query + "192.0.2.5") == ["one"]
    assert names(admin, query + "192.0.2.6") == []
    assert admin.fault("GET", f"/servers?all_tenants=1&uuid={server}&marker=nosuch", 400)


@pytest.mark.parametrize("path", ["/servers", "/servers/detail"])
@pytest.mark.parametrize("query", ["ip=0.2.77", "ip=%5E192%5C.0%5C.2%5C.77%24&limit=5", "ip6=2001:db8&ip=9:"])
def test_servers_with_an_address_are_found_by_as_many_statements_among_many(servers, cloud, member, monkeypatch, path, query):
    monkeypatch.setattr(instance_list, "_BATCH", 2)
    wanted = servers.active(member, name="wanted")
    servers.set(wanted, network_info=[servers.vif("192.0.2.77"), servers.vif("2001:db8::77")])
    counts = []
    for number in range(5):
        servers.active(member)
        with cloud.statements() as seen:
            assert names(member.at("2.5"), query, path) == ["wanted"], number
        counts.append(len([s for s in seen if s.lstrip().upper().startswith("SELECT")]))
    assert set(counts) == {2}


def test_status_reboot_is_a_state_with_a_task(servers, member):
    servers.set(servers.active(member, name="r"), task_state="rebooting")
    servers.active(member, name="a")
    assert names(member, "status=REBOOT") == ["r"]
    assert names(member, "status=ACTIVE") == ["a"]
    assert names(member.at("2.37"), "status=NONE") == []
    assert member.at("2.38").fault("GET", "/servers?status=NONE", 400) == "Invalid status value"


def test_tag_filters(servers, member):
    for name, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", [])):
        member.at("2.52").post("/servers", servers.body(name=name, tags=tags, networks="none"), 202)
    for query, expected in (("tags=x", ["b", "a"]), ("tags=x,y", ["b"]), ("tags-any=y,z", ["b"]), ("not-tags=x,y", ["c", "a"]),
                            ("not-tags-any=x", ["c"])):
        assert names(member.at("2.26"), query) == expected, query
    assert len(names(member.at("2.25"), "tags=x")) == 3


def test_changes_are_found_by_an_index(servers, cloud, member, admin):
    server = servers.create(member, name="new")
    since = (units.utcnow() - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with cloud.statements() as seen:
        assert names(member, f"changes-since={since}") == ["new"]
    assert not any("coalesce" in statement.lower() for statement in seen)
    shown = member.get(f"/servers/{server}")["server"]
    assert shown["updated"] == shown["created"]
    with cloud.db.read() as connection:
        plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN SELECT uuid FROM instances WHERE project_id = 'p' AND "
                                          "updated_at >= '2026-01-01' AND display_name = 'x'").all()
    assert "ix_instances_project_updated" in str(plan)


def test_changes_since_shows_deleted_ones(servers, cloud, member):
    old, gone = servers.create(member, name="old"), servers.create(member, name="gone")
    past = units.utcnow() - datetime.timedelta(days=2)
    servers.set(old, created_at=past, updated_at=past)
    servers.set(gone, deleted=2, deleted_at=units.utcnow(), vm_state="deleted", updated_at=units.utcnow())
    since = (units.utcnow() - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    (shown,) = member.get(f"/servers/detail?changes-since={since}")["servers"]
    assert (shown["name"], shown["status"]) == ("gone", "DELETED")
    assert names(member) == ["old"]
    assert names(member.at("2.66"), f"changes-before={since}") == ["old"]
    before = (units.utcnow() - datetime.timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert "less than or equal" in member.at("2.66").fault(
        "GET", f"/servers?changes-since={since}&changes-before={before}", 400)
    member.fault("GET", f"/servers/{gone}", 404)


def test_changes_are_compared_by_the_seconds_that_are_shown(servers, member):
    servers.set(servers.create(member, name="one"), updated_at=datetime.datetime(2026, 1, 2, 3, 4, 5, 678901))
    updated = member.get("/servers/detail")["servers"][0]["updated"]
    assert updated == "2026-01-02T03:04:05Z"
    both = member.at("2.66")
    assert names(both, f"changes-before={updated}") == names(both, f"changes-since={updated}") == ["one"]
    assert names(both, f"changes-before={updated}&changes-since={updated}") == ["one"]
    assert names(both, "changes-since=2026-01-02T03:04:05.5Z") == []        # it was at :05, as far as anybody is told
    assert names(both, "changes-before=2026-01-02T03:04:04Z") == names(both, "changes-since=2026-01-02T03:04:06Z") == []


@pytest.mark.parametrize("last", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.5Z", "9999-12-31T23:59:59.999999Z"])
def test_the_last_second_of_the_calendar_is_a_time_like_others(servers, member, admin, last):
    servers.create(member, name="one")
    assert names(member, f"changes-since={last}") == []
    assert names(member.at("2.66"), f"changes-before={last}") == ["one"]
    for name in ("created_at", "launched_at", "terminated_at"):
        assert names(admin.at("2.83"), f"{name}={last}") == []


def test_changes_before_shows_deleted_ones_too(servers, member, admin):
    past = units.utcnow() - datetime.timedelta(days=2)
    for name, values in (("gone", {"deleted": 2, "deleted_at": past, "vm_state": "deleted"}), ("old", {}), ("older", {})):
        servers.set(servers.create(member, name=name), updated_at=past, created_at=past, **values)
    servers.create(member, name="new")
    before = (units.utcnow() - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = member.at("2.66").get(f"/servers/detail?changes-before={before}")["servers"]
    assert [(s["name"], s["status"]) for s in found] == [("older", "BUILD"), ("old", "BUILD"), ("gone", "DELETED")]
    assert names(admin.at("2.66"), f"all_tenants=1&deleted=0&changes-before={before}") == ["older", "old"]
    assert names(admin.at("2.66"), f"all_tenants=1&deleted=1&changes-before={before}") == ["gone"]
    assert sorted(names(member.at("2.65"), f"changes-before={before}")) == ["new", "old", "older"]


def test_deleted_ones_are_for_admins(servers, member, admin):
    server = servers.create(member, name="gone")
    servers.set(server, deleted=1, vm_state="deleted")
    assert member.fault("GET", "/servers?status=DELETED", 403) == "Only administrators may list deleted instances"
    assert names(admin, "all_tenants=1&deleted=1") == ["gone"]
    assert names(admin, "all_tenants=1&status=deleted") == ["gone"]
    assert names(member, "deleted=1") == []


def test_all_tenants_is_for_admins(servers, member, admin):
    servers.create(member, name="theirs")
    assert names(admin) == []
    assert names(admin, "all_tenants=1") == ["theirs"]
    assert names(admin, "all_tenants") == ["theirs"]
    assert names(admin, "all_tenants=0") == []
    assert names(admin, "all_tenants=1&project_id=project1") == ["theirs"]
    assert names(admin, "all_tenants=1&tenant_id=other") == []
    assert names(admin, "tenant_id=project1") == []
    assert "get_all_tenants" in member.fault("GET", "/servers?all_tenants=1", 403)
    assert "get_all_tenants" in member.fault("GET", "/servers/detail?all_tenants=1", 403)
    admin.fault("GET", "/servers?all_tenants=maybe", 400)


def test_admin_filters(servers, admin):
    servers.active(admin, name="a")
    servers.create(admin, name="b")
    for query, expected in (("host=host1", ["a"]), ("node=host1", ["a"]), ("power_state=1", ["a"]),
                            ("power_state=running", ["a"]), ("vm_state=building", ["b"]), ("task_state=scheduling", ["b"]),
                            ("launch_index=0&name=a", ["a"]),
                            ("power_state=many", []), ("user_id=none", []), ("availability_zone=nova", ["a"]),
                            ("config_drive=true", []), ("hostname=b", ["b"]), ("nonsense=1&name=b", ["b"])):
        assert names(admin, query) == expected, query


def test_filters_for_everybody_from_2_83(servers, member):
    servers.active(member, name="a")
    servers.create(member, name="b")
    assert names(member.at("2.83"), "vm_state=active") == ["a"]
    assert names(member.at("2.83"), "host=other") == ["b", "a"]
    assert names(member.at("2.90"), "hostname=a") == ["a"]
    assert names(member.at("2.73"), "locked=true") == []
    assert len(names(member.at("2.73"), "locked=false")) == 2
    member.at("2.73").fault("GET", "/servers?locked=maybe", 400)


@pytest.mark.parametrize(("version", "query"), [
    ("2.1", "sort_key=nonsense"), ("2.1", "sort_dir=up"), ("2.1", "limit=-1"), ("2.1", "limit=x"), ("2.1", "marker=none"),
    ("2.1", "changes-since=yesterday"), ("2.1", "changes-since=0001-01-01T00:00:00%2B14:00"),
    ("2.66", "changes-before=9999-12-31T23:59:59-14:00"), ("2.1", "name=%5B"), ("2.1", "ip=("), ("2.75", "nonsense=1"),
    ("2.1", "sort_key=internal_id"), ("2.1", "sort_key=config_drive_id"), ("2.1", "sort_key=uuid&sort_dir=asc&sort_dir=desc"),
    ("2.83", "launched_at=never"), ("2.1", "name=%00")])
def test_wrong_queries(servers, member, version, query):
    member.at(version).fault("GET", f"/servers?{query}", 400)
    member.at(version).fault("GET", f"/servers/detail?{query}", 400)


@pytest.mark.parametrize("name", ["changes_since", "updated_at", "deleted_at", "instance_type_id", "root_gb", "memory_mb",
                                  "vcpus", "launched_on"])
def test_columns_that_are_no_filters(servers, cloud, name):
    admin = cloud.client("admin", "project1", ("admin",))
    servers.create(admin, name="a")
    assert names(admin.at("2.74"), f"{name}=0") == ["a"]
    admin.at("2.75").fault("GET", f"/servers?{name}=0", 400)


@pytest.mark.parametrize("version", ["2.1", "2.75"])
@pytest.mark.parametrize("name", ["metadata", "services", "block_device_mapping", "_x"])
def test_names_of_tables_are_no_filters(servers, member, admin, name, version):
    servers.create(member, name="a")
    assert names(member.at(version), f"{name}=1") == ["a"]
    for path in ("/servers", "/servers/detail"):
        assert admin.at(version).fault("GET", f"{path}?{name}=1", 400) == f"Invalid filter field: {name}."


@pytest.mark.parametrize("key", ["id", "vcpus", "user_data", "deleted", "key_data", "launched_on", "architecture"])
def test_sort_keys_that_say_nothing_are_refused_from_2_75(servers, member, key):
    for name in ("b", "a"):
        servers.create(member, name=name)
    assert names(member, f"sort_key={key}&sort_key=display_name&sort_dir=asc") == ["a", "b"]
    assert names(member.at("2.74"), f"sort_key={key}&sort_key=display_name&sort_dir=asc") == ["a", "b"]
    member.at("2.75").fault("GET", f"/servers?sort_key={key}", 400)


def test_locked_servers_come_first_from_2_73(servers, member):
    for name, locked in (("b", True), ("a", False)):
        servers.set(servers.create(member, name=name), locked=locked)
    query = "sort_key=locked&sort_dir=desc&sort_key=display_name&sort_dir=asc"
    assert names(member.at("2.72"), query) == ["a", "b"]
    for version in ("2.73", "2.75"):
        assert names(member.at(version), query) == ["b", "a"]


@pytest.mark.parametrize("path", ["/servers", "/servers/detail"])
def test_who_asks_for_no_server_is_asked_for_his_role_too(member, admin, path):
    for limit in (0, 1):
        member.fault("GET", f"{path}?limit={limit}&all_tenants=1", 403)
        assert admin.get(f"{path}?limit={limit}&all_tenants=1") == {"servers": []}


def test_sort_by_host_is_for_admins(servers, member, admin):
    assert member.fault("GET", "/servers?sort_key=host", 403) == "Only administrators can sort servers by host"
    admin.get("/servers?sort_key=host&sort_key=id")


@pytest.mark.parametrize("version", ["2.1", "2.96"])
def test_a_long_list_takes_as_many_statements_as_a_short_one(servers, cloud, admin, version):
    counts = []
    for _ in range(2):
        servers.active(admin)
        admin.at(version).get("/servers/detail")
        with cloud.statements() as seen:
            admin.at(version).get("/servers/detail")
        counts.append(len([s for s in seen if s.lstrip().upper().startswith("SELECT")]))
    assert counts[0] == counts[1] <= 3


def test_a_server_of_another_tenant_does_not_exist(servers, member, admin, cloud):
    server = servers.active(admin)
    for method, path, body in (
            ("GET", "", None), ("PUT", "", {"server": {"name": "x"}}), ("DELETE", "", None), ("GET", "/ips", None),
            ("GET", "/metadata", None), ("POST", "/metadata", {"metadata": {}}), ("GET", "/os-instance-actions", None),
            ("POST", "/action", {"os-stop": None})):
        assert member.fault(method, f"/servers/{server}{path}", 404, body) == f"Instance {server} could not be found."
    assert admin.get(f"/servers/{servers.create(member)}")["server"]["tenant_id"] == "project1"
