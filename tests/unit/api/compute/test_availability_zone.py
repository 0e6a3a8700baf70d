"""/os-availability-zone."""
import datetime

import pytest

from nova_lite import units
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
