"""/os-simple-tenant-usage."""
import datetime

import pytest

from nova_lite import units
from nova_lite.objects.flavor import Flavor
from tests.unit.api.compute.conftest import assert_like_sample

START = datetime.datetime(2020, 1, 1)
PATH = "/os-simple-tenant-usage"
PERIOD = "start=2020-01-01T00:00:00&end=2020-01-02T00:00:00.000000"
UNKNOWN = "11111111-2222-3333-4444-555555555555"


def hours(number):
    return START + datetime.timedelta(hours=number)


@pytest.fixture
def add(cloud):
    """A server that ran from one hour of the day to another one (None: it runs on)."""
    def add(begin, end=None, project="project1", **values):
        flavor = Flavor("5", "big", 2048, 4, 30, ephemeral_gb=10)
        number = values.pop("number", 0)
        values = {"uuid": f"{number:08x}-2222-3333-4444-555555555555"} if number else {}
        return cloud.add_server(flavor=flavor, project_id=project, launched_at=None if begin is None else hours(begin),
                                terminated_at=None if end is None else hours(end), **values)
    return add


@pytest.mark.parametrize("version", ["2.1", "2.40", "2.75"])
def test_views_have_the_keys_of_the_samples(admin, add, version):
    add(1, 3)
    admin, paged = admin.at(version), "" if version == "2.1" else "&limit=1"
    sample = "2.1" if version == "2.1" else "2.40"
    folder = "os-simple-tenant-usage/simple-tenant-usage-get"
    assert_like_sample(admin.get(f"{PATH}?{PERIOD}{paged}"), folder, sample)
    assert_like_sample(admin.get(f"{PATH}?{PERIOD}&detailed=1{paged}"), f"{folder}-detail", sample)
    assert_like_sample(admin.get(f"{PATH}/project1?{PERIOD}{paged}"), f"{folder}-specific", sample)


def test_hours_of_a_period(member, add):
    terminated, running = add(-5, 3), add(20)
    usage = member.get(f"{PATH}/project1?{PERIOD}")["tenant_usage"]
    assert (usage["start"], usage["stop"]) == ("2020-01-01T00:00:00.000000", "2020-01-02T00:00:00.000000")
    assert usage["total_hours"] == 7.0
    assert usage["total_vcpus_usage"] == 28.0
    assert usage["total_memory_mb_usage"] == 7 * 2048.0
    assert usage["total_local_gb_usage"] == 7 * 40.0
    servers = {server["instance_id"]: server for server in usage["server_usages"]}
    assert servers[terminated] == {
        "instance_id": terminated, "name": "server", "tenant_id": "project1", "hours": 3.0, "flavor": "big", "vcpus": 4,
        "memory_mb": 2048, "local_gb": 40, "started_at": "2019-12-31T19:00:00.000000",
        "ended_at": "2020-01-01T03:00:00.000000", "state": "terminated", "uptime": 8 * 3600}
    assert (servers[running]["hours"], servers[running]["state"], servers[running]["ended_at"]) == (4.0, "active", None)
    age = (units.utcnow() - hours(20)).total_seconds()
    assert abs(servers[running]["uptime"] - age) < 60


def test_who_did_not_run_costs_nothing(member, add):
    add(-3, -1)
    add(25)
    add(None)
    assert member.get(f"{PATH}/project1?{PERIOD}") == {"tenant_usage": {}}
    assert member.get(f"{PATH}/project1") != {"tenant_usage": {}}     # of now: the second one runs
    assert member.get(f"{PATH}/project1")["tenant_usage"]["total_hours"] == 0.0


def test_a_deleted_server_is_still_counted(cloud, member, add):
    server = add(1)
    cloud.delete_server(server)
    (usage,) = member.get(f"{PATH}/project1?{PERIOD}")["tenant_usage"]["server_usages"]
    assert (usage["instance_id"], usage["hours"], usage["state"]) == (server, 23.0, "terminated")


def test_the_end_is_never_later_than_now(member, add):
    add(0)
    usage = member.get(f"{PATH}/project1?start=2020-01-01T00:00:00&end=2999-01-01T00:00:00")["tenant_usage"]
    assert usage["stop"] <= units.utcnow().isoformat()


def test_all_projects(admin, add):
    for project in ("project2", "project1", "project1"):
        add(0, 1, project)
    usages = admin.get(f"{PATH}?{PERIOD}")["tenant_usages"]
    assert [(usage["tenant_id"], usage["total_hours"]) for usage in usages] == [("project1", 2.0), ("project2", 1.0)]
    assert all("server_usages" not in usage for usage in usages)
    usages = admin.get(f"{PATH}?{PERIOD}&detailed=1")["tenant_usages"]
    assert [len(usage["server_usages"]) for usage in usages] == [2, 1]
    assert "server_usages" not in admin.get(f"{PATH}?{PERIOD}&detailed=true")["tenant_usages"][0]


def test_pages_since_2_40(admin, add):
    ids = [add(0, 1, "project1", number=1), add(0, 1, "project1", number=2), add(0, 1, "project0", number=3)]
    seen, path = [], f"{PATH}?{PERIOD}&detailed=1&limit=1"
    while path:
        page = admin.at("2.40").get(path)
        seen += [server["instance_id"] for usage in page["tenant_usages"] for server in usage["server_usages"]]
        links = page.get("tenant_usages_links")
        path = links[0]["href"].removeprefix("http://localhost:8774/v2.1") if links else None
    assert seen == [ids[2], ids[0], ids[1]]
    page = admin.at("2.40").get(f"{PATH}/project1?{PERIOD}&limit=1")
    assert page["tenant_usage_links"][0]["href"].endswith(f"/project1?end=2020-01-02T00%3A00%3A00.000000&limit=1"
                                                          f"&start=2020-01-01T00%3A00%3A00&marker={ids[0]}")
    assert admin.at("2.40").fault("GET", f"{PATH}?marker={UNKNOWN}", 400) == f"marker [{UNKNOWN}] not found"
    assert admin.at("2.40").get(f"{PATH}?{PERIOD}&limit=0") == {"tenant_usages": []}
    assert len(admin.at("2.39").get(f"{PATH}/project1?{PERIOD}&limit=1")["tenant_usage"]["server_usages"]) == 2


@pytest.mark.parametrize("query", ["start=2020-01-02T00:00:00&end=2020-01-01T00:00:00", "start=yesterday", "end=2020-13-01",
                                   "start=2999-01-01T00:00:00", "start=2020-01-01T00:00:00&end=2020-01-01T00:00:00"])
def test_bad_times(admin, query):
    admin.get(f"{PATH}?{query}", 400)
    admin.get(f"{PATH}/project1?{query}", 400)


def test_all_forms_of_times(admin):
    for text in ("2020-01-01T00:00:00", "2020-01-01T00:00:00.123", "2020-01-01%2000:00:00.5", "", "0001-01-01T00:00:00"):
        assert admin.get(f"{PATH}?start={text}") == {"tenant_usages": []}


def test_unknown_parameters_since_2_75(admin):
    admin.at("2.74").get(f"{PATH}?x=1")
    admin.at("2.75").get(f"{PATH}?x=1", 400)
    admin.at("2.74").get(f"{PATH}/project1?detailed=1")
    admin.at("2.75").get(f"{PATH}/project1?detailed=1", 400)


def test_who_may_see_it(cloud, member, admin):
    member.get(PATH, 403)
    member.get(f"{PATH}/project2", 403)
    member.get(f"{PATH}/project1")
    admin.get(f"{PATH}/project1")
    cloud.client(roles=()).get(f"{PATH}/project1", 403)


def test_statements(cloud, admin, add):
    marker = add(0, 1)
    for number in range(1, 6):
        add(0, 1, f"project{number}")
    for path, count in ((f"{PATH}?{PERIOD}&detailed=1", 1), (f"{PATH}?{PERIOD}&marker={marker}", 2)):
        with cloud.statements() as seen:
            admin.at("2.40").get(path)
        assert len([statement for statement in seen if statement.startswith("SELECT")]) == count
