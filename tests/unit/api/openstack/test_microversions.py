from __future__ import annotations

import pytest

from nova_lite.api.openstack import microversions
from tests.unit.api.conftest import Client, Make, fault

VARY = ["OpenStack-API-Version", "X-OpenStack-Nova-API-Version"]


def versions_of(response):
    return (response.headers.get("OpenStack-API-Version"), response.headers.get("X-OpenStack-Nova-API-Version"),
            response.headers.getall("Vary"))


@pytest.mark.parametrize(("headers", "used"), [
    ({}, "2.1"),
    ({"OpenStack_API_Version": "compute 2.9"}, "2.9"),
    ({"OpenStack_API_Version": "compute 2.10"}, "2.10"),
    ({"OpenStack_API_Version": "volume 3.50, compute 2.9"}, "2.9"),
    ({"OpenStack_API_Version": "volume 3.50"}, "2.1"),
    ({"OpenStack_API_Version": "compute"}, "2.1"),
    ({"X_OpenStack_Nova_API_Version": "2.47"}, "2.47"),
    ({"OpenStack_API_Version": "compute 2.9", "X_OpenStack_Nova_API_Version": "2.47"}, "2.9"),
    ({"OpenStack_API_Version": "compute latest"}, microversions.MAX),
    ({"X_OpenStack_Nova_API_Version": "latest"}, microversions.MAX),
    ({"OpenStack_API_Version": f"compute {microversions.MAX}"}, microversions.MAX),
])
def test_the_version_in_use_is_answered(api: Client, headers, used):
    response = api("/v2.1/things/x", **headers)
    assert response.json["version"] == used
    assert versions_of(response) == (f"compute {used}", used, VARY)


def test_since_compares_numbers_not_text(api: Client):
    assert api("/v2.1/things/x", version="2.10").json["since"] is True
    assert api("/v2.1/things/x", version="2.8").json["since"] is False


@pytest.mark.parametrize("headers", [
    {"OpenStack_API_Version": "compute two"}, {"OpenStack_API_Version": "compute 2"},
    {"OpenStack_API_Version": "compute 2.1.3"}, {"OpenStack_API_Version": "compute 2.01"},
    {"X_OpenStack_Nova_API_Version": "nonsense"}])
def test_a_malformed_version_is_a_bad_request(api: Client, headers):
    response = api("/v2.1/things/x", **headers)
    assert "of invalid format" in fault(response, "badRequest", 400)
    assert versions_of(response) == (None, None, [])


@pytest.mark.parametrize("version", ["2.0", "1.1", "3.1", "2.9999"])
def test_a_version_out_of_range_is_not_acceptable(api: Client, version):
    response = api("/v2.1/things/x", version=version)
    assert fault(response, "computeFault", 406) == (
        f"Version {version} is not supported by the API. Minimum is 2.1 and maximum is {microversions.MAX}.")
    assert versions_of(response) == (f"compute {version}", version, VARY)


def test_faults_carry_the_version(api: Client):
    assert versions_of(api("/v2.1/things/conflict", version="2.9")) == ("compute 2.9", "2.9", VARY)


def test_a_method_out_of_range_is_not_found(api: Client):
    assert api("/v2.1/things/x/part", version="2.35").json == {"old": "x"}
    assert api("/v2.1/things/x/part", version="2.40").json == {"new": "x"}
    assert fault(api("/v2.1/things/x/part", version="2.36"), "itemNotFound", 404) == "The resource could not be found."


def test_an_action_out_of_range_is_not_found(api: Client):
    assert api("/v2.1/things/x/action", "POST", {"shrink": None}, version="2.17").status_code == 202
    fault(api("/v2.1/things/x/action", "POST", {"shrink": None}, version="2.16"), "itemNotFound", 404)


def test_status_by_version(api: Client):
    assert api("/v2.1/things", "POST", {"thing": {"name": "n"}}).status_code == 200
    assert api("/v2.1/things", "POST", {"thing": {"name": "n"}}, version="2.2").status_code == 201


def test_v2_knows_no_microversions(api: Client):
    response = api("/v2/things/x", version="2.90")
    assert response.json["version"] == "2.1"
    assert versions_of(response) == (None, None, [])
    assert versions_of(api("/v2/nowhere", version="nonsense")) == (None, None, [])
    assert api("/v2/things/x").json["self"] == "http://cloud:8774/v2/things/x"


def test_latest_is_nova_34(make: Make):
    response = make()("/v2.1/things/x", version="latest")
    assert response.json["version"] == "2.104"
    assert versions_of(response)[1] == "2.104"
