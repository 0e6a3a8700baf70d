"""/os-availability-zone."""
import datetime

import pytest

from nova_lite import units
from nova_lite.db import services
from tests.unit.api.compute.conftest import assert_like_sample


@pytest.fixture(autouse=True)
def _services(cloud, admin):
    cloud.add_service("ctl", "nova-conductor")
    cloud.add_service("host1")
    cloud.add_service("host2", last_seen_at=units.utcnow() - datetime.timedelta(hours=1))
    cloud.add_service("host3", disabled=True)
    admin.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "closed"}})
    admin.post("/os-aggregates/1/action", {"add_host": {"host": "host3"}})


def test_list(member):
    answer = member.get("/os-availability-zone")
    assert_like_sample(answer, "os-availability-zone/availability-zone-list-resp", "2.1")
    assert answer == {"availabilityZoneInfo": [
        {"zoneName": "nova", "zoneState": {"available": True}, "hosts": None},
        {"zoneName": "closed", "zoneState": {"available": False}, "hosts": None}]}


def test_detail(admin, member):
    answer = admin.get("/os-availability-zone/detail")
    assert_like_sample(answer, "os-availability-zone/availability-zone-detail-resp", "2.1")
    zones = {zone["zoneName"]: zone["hosts"] for zone in answer["availabilityZoneInfo"]}
    assert list(zones["internal"]) == ["ctl"]
    assert {host: binaries["nova-compute"]["available"] for host, binaries in zones["nova"].items()} == {
        "host1": True, "host2": False}
    assert zones["closed"] is None
    member.get("/os-availability-zone/detail", 403)


def _zones(caller):
    found = caller.get("/os-availability-zone")["availabilityZoneInfo"]
    return [(zone["zoneName"], zone["zoneState"]["available"]) for zone in found]


def test_zones_of_several_aggregates_and_the_default_by_name(cloud, admin, member):
    """A zone is available when any of its hosts takes servers. A zone without hosts is not shown."""
    for number, (name, zone) in enumerate((("b", "closed"), ("c", "nova"), ("d", "empty"), ("e", None)), 2):
        admin.post("/os-aggregates", {"aggregate": {"name": name, **({"availability_zone": zone} if zone else {})}})
        assert admin.get(f"/os-aggregates/{number}")["aggregate"]["name"] == name
    cloud.add_service("host4")
    admin.post("/os-aggregates/2/action", {"add_host": {"host": "host4"}})
    admin.post("/os-aggregates/5/action", {"add_host": {"host": "host4"}})      # no zone
    assert _zones(member) == [("closed", True), ("nova", True)]
    for host in ("host1", "host2"):
        admin.put("/os-services/disable", {"host": host, "binary": "nova-compute"})
    assert _zones(member) == [("closed", True), ("nova", False)]
    cloud.add_service("host5")
    admin.post("/os-aggregates/3/action", {"add_host": {"host": "host5"}})
    assert _zones(member) == [("closed", True), ("nova", True)]


@pytest.mark.parametrize(("zone", "takes"), [
    ("nova", True), ("closed", False), ("mars", False), ("Nova", False), ("nova ", False)])
def test_a_zone_takes_servers_when_a_host_of_it_does(cloud, zone, takes):
    with cloud.db.read() as conn:
        assert services.zone_takes_servers(conn, zone, "nova") == takes


def test_hosts_of_the_default_zone_are_in_no_other(cloud, admin):
    for number, host in enumerate(("host1", "host2"), 2):
        admin.post("/os-aggregates", {"aggregate": {"name": host, "availability_zone": "closed"}})
        admin.post(f"/os-aggregates/{number}/action", {"add_host": {"host": host}})
    with cloud.db.read() as conn:
        assert services.zone_takes_servers(conn, "closed", "nova")
        assert not services.zone_takes_servers(conn, "nova", "nova")
        assert services.zones(conn, "nova") == {"closed": True}
