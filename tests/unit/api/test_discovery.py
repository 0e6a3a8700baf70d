from __future__ import annotations

import json
import types

import pytest

from nova_lite.api.compute import extension_info, versions
from nova_lite.api.openstack import microversions
from tests.unit.api.conftest import Client, Make, fault

ROUTES = [*versions.ROUTES, *extension_info.ROUTES]


@pytest.fixture
def api(make: Make) -> Client:
    return make(ROUTES, validate_responses=True)


def test_the_list_of_versions(api: Client):
    old, new = api("/").json["versions"]
    assert old == {"id": "v2.0", "status": "DEPRECATED", "version": "", "min_version": "", "updated": "2025-07-04T12:00:00Z",
                   "links": [{"rel": "self", "href": "http://cloud:8774/v2/"}]}
    assert new == {"id": "v2.1", "status": "CURRENT", "version": microversions.MAX, "min_version": "2.1",
                   "updated": "2013-07-23T11:33:21Z", "links": [{"rel": "self", "href": "http://cloud:8774/v2.1/"}]}


@pytest.mark.parametrize(("path", "version_id", "media"), [
    ("/v2.1", "v2.1", "2.1"), ("/v2.1/", "v2.1", "2.1"), ("/v2", "v2.0", "2"), ("/v2/", "v2.0", "2"),
    ("/v2.1/versions/v2.1", "v2.1", "2.1"), ("/v2.1/versions/v2.0", "v2.0", "2")])
def test_one_version(api: Client, path, version_id, media):
    version = api(path).json["version"]
    href = "http://cloud:8774/v2.1/" if version_id == "v2.1" else "http://cloud:8774/v2/"
    assert version["id"] == version_id
    assert version["links"] == [{"rel": "self", "href": href},
                                {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"}]
    assert version["media-types"] == [{"base": "application/json",
                                       "type": f"application/vnd.openstack.compute+json;version={media}"}]


def test_an_unknown_version(api: Client):
    fault(api("/v2.1/versions/v3"), "itemNotFound", 404)


@pytest.mark.parametrize(("path", "method"), [("/servers/x", "GET"), ("/v3/servers", "GET"), ("/v2.10/x", "GET"),
                                              ("/servers", "POST")])
def test_choices(api: Client, path, method):
    response = api(path, method)
    assert response.status_code == 300
    assert [(choice["id"], choice["links"]) for choice in response.json["choices"]] == [
        ("v2.0", [{"rel": "self", "href": f"http://cloud:8774/v2{path}"}]),
        ("v2.1", [{"rel": "self", "href": f"http://cloud:8774/v2.1{path}"}])]


@pytest.mark.parametrize("path", ["/", "//", "/v2.1", "/v2.1/", "/v2.1//", "/v2", "/v2/"])
def test_versions_are_shown_whatever_the_method(api: Client, path):
    """As in Nova. The answer to HEAD has the headers of the others, but no body."""
    shown = api(path)
    for method in ("HEAD", "POST", "PUT", "PATCH", "DELETE"):
        response = api(path, method)
        assert (response.status_code, response.headers["Content-Length"]) == (200, str(len(shown.body)))
        assert response.body == (b"" if method == "HEAD" else shown.body)


def _version_headers(response):
    return [value for name, value in response.headers.items() if name.lower().endswith("-api-version") or name == "Vary"]


@pytest.mark.parametrize(("asked", "used"), [(None, "2.1"), ("2.90", "2.90"), ("latest", microversions.MAX)])
def test_the_version_in_use_is_answered(api: Client, asked, used):
    expected = [f"compute {used}", used, "OpenStack-API-Version", "X-OpenStack-Nova-API-Version"]
    for path in ("/v2.1", "/v2.1/"):
        assert _version_headers(api(path, version=asked)) == expected
    for path in ("/", "/v2", "/v2/", "/servers"):
        assert _version_headers(api(path, version=asked)) == []


def test_a_version_that_is_not_served_is_refused(api: Client):
    fault(api("/v2.1/", version="2.9999"), "computeFault", 406)
    fault(api("/v2.1/", version="two"), "badRequest", 400)
    for path in ("/", "/v2/"):
        assert api(path, version="2.9999").status_code == 200


def test_v2_knows_of_no_version_but_itself(api: Client):
    assert api("/v2/versions/v2.1").json["version"]["id"] == "v2.0"


def test_a_public_url_replaces_ours(make: Make):
    api = make(ROUTES, api__link_prefix="https://public/compute")
    assert api("/v2.1/").json["version"]["links"][0]["href"] == "https://public/compute/v2.1/"
    assert api("/").json["versions"][0]["links"][0]["href"] == "https://public/compute/v2/"
    assert api("/v2.1/versions/v2.1").json["version"]["links"][0]["href"] == "https://public/compute/v2.1/"


def test_extensions(api: Client):
    listed = api("/v2.1/extensions").json["extensions"]
    assert [extension["alias"] for extension in listed] == sorted(extension["alias"] for extension in listed)
    assert {"OS-DCF", "os-keypairs", "os-aggregates"} <= {extension["alias"] for extension in listed}
    one = api("/v2.1/extensions/os-keypairs").json["extension"]
    assert one in listed
    assert (one["name"], one["updated"], one["links"]) == ("Keypairs", "2014-12-03T00:00:00Z", [])
    fault(api("/v2.1/extensions/none"), "itemNotFound", 404)


def test_a_third_partys_module_stands_beside_ours(make: Make):
    assert isinstance(versions, types.ModuleType)
    assert json.loads(make()("/v2.1/things/x").body)["id"] == "x"
