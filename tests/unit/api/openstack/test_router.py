from __future__ import annotations

import logging
import re
import time

import pytest
import webob

from nova_lite import exception
from nova_lite.api.openstack import faults, pagination, registry
from nova_lite.api.openstack.routes import Route
from nova_lite.runtime import log
from tests.unit.api.conftest import ROUTES, Client, Make, fault, module

REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
POLICY = "os_compute_api:servers:show"


# paths -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("path", "thing"), [
    ("/v2.1/things/x", "x"), ("/v2.1/things/x.json", "x.json"), ("/v2.1/things/a%20b+c", "a b+c"),
    ("/v2.1/things/%C3%A4", "\u00e4"), ("/v2.1/demo/things/x", "x"), ("/v2.1/things/things", "things")])
def test_path_parameters(api: Client, path, thing):
    assert api(path).json["id"] == thing


def test_an_empty_name_is_not_there(api: Client):
    for path in ("/v2.1/things/", "/v2.1/things/x/", "/v2.1/demo/things/", "/v2.1/demo/"):
        assert api(path).status_code == 404


def test_fixed_words_go_before_names(api: Client):
    assert api("/v2.1/things/wrong").json == {"count": "three"}


def test_the_project_in_the_url_must_be_the_tokens(api: Client):
    assert api("/v2.1/demo/things/x").status_code == 200
    message = fault(api("/v2.1/other/things/x"), "badRequest", 400)
    assert message == ("Malformed request URL: URL's project_id 'other' doesn't match Context's project_id 'demo'")


def test_links(api: Client, make: Make):
    plain = api("/v2.1/things/a%20b").json
    assert plain["self"] == "http://cloud:8774/v2.1/things/a%20b"
    assert plain["bookmark"] == "http://cloud:8774/things/a%20b"
    scoped = api("/v2.1/demo/things/x").json
    assert scoped["self"] == "http://cloud:8774/v2.1/demo/things/x"
    assert scoped["bookmark"] == "http://cloud:8774/demo/things/x"
    proxied = make(api__link_prefix="https://api.example.org/compute/")("/v2.1/things/x").json
    assert proxied["self"] == "https://api.example.org/compute/v2.1/things/x"
    assert proxied["bookmark"] == "https://api.example.org/compute/things/x"


# answers -----------------------------------------------------------------------------------------------------------
def test_no_content_has_neither_body_nor_type(api: Client):
    response = api("/v2.1/things/x", "DELETE", token="admin:demo")
    assert (response.status_code, response.body) == (204, b"")
    assert "Content-Type" not in response.headers


def test_a_response_of_the_handlers_own(api: Client):
    response = api("/v2.1/things/x/action", "POST", {"shrink": None}, version="2.17")
    assert response.status_code == 202
    assert response.headers["Location"] == "http://elsewhere/x"
    assert REQUEST_ID.fullmatch(response.headers["x-compute-request-id"])


def test_policy_is_checked_before_the_handler(api: Client):
    message = fault(api("/v2.1/things/x", "DELETE"), "forbidden", 403)
    assert message == "Policy doesn't allow os_compute_api:os-services:delete to be performed."


def test_responses_are_checked_where_asked_for(make: Make):
    assert make()("/v2.1/things/wrong").status_code == 200
    with pytest.raises(faults.ResponseMismatch, match="GET /things/wrong: count: 'three' is not of type 'integer'"):
        make(validate_responses=True)("/v2.1/things/wrong")


@pytest.mark.parametrize("status", [202, 204])
def test_an_answer_without_a_schema_has_no_body(make: Make, status):
    def handler(answer):
        return make([Route("GET", "/x", lambda _req: answer, None, status=status)], validate_responses=True)
    assert handler(None)("/v2.1/x").status_code == status
    with pytest.raises(faults.ResponseMismatch, match="GET /x: : .* is not of type 'null'"):
        handler({"a": 1})("/v2.1/x")


def test_a_location_is_in_the_table(make: Make):
    def ask(**more):
        route = Route("GET", "/x", lambda _req: webob.Response(location="http://elsewhere/"), None, **more)
        return make([route], validate_responses=True)("/v2.1/x")
    assert ask(headers={"Location": {}}).headers["Location"] == "http://elsewhere/"
    with pytest.raises(faults.ResponseMismatch, match="no Location"):
        ask()


# actions -----------------------------------------------------------------------------------------------------------
def test_an_action_gets_its_argument(api: Client):
    response = api("/v2.1/things/x/action", "POST", {"grow": {"by": 2}})
    assert (response.status_code, response.body) == (202, b"")
    fault(api("/v2.1/things/x/action", "POST", {"grow": {}}), "badRequest", 400)


def test_an_unknown_action(api: Client):
    assert fault(api("/v2.1/things/x/action", "POST", {"fly": None}), "badRequest", 400) == "There is no such action: fly"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"grow": {"by": 1}, "shrink": null}', b"{", b'"grow"'])
def test_a_malformed_action(api: Client, body):
    assert fault(api("/v2.1/things/x/action", "POST", body), "badRequest", 400) == "Malformed request body"


# ids and log -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["/v2.1/things/x", "/v2.1/nowhere", "/", "/v2.1/", "/v2/things/x", "/v2.1/things/bug"])
def test_every_answer_has_a_request_id(api: Client, path):
    response = api(path)
    assert REQUEST_ID.fullmatch(response.headers["x-compute-request-id"])
    assert response.headers["x-openstack-request-id"] == response.headers["x-compute-request-id"]
    assert api(path).headers["x-compute-request-id"] != response.headers["x-compute-request-id"]


def test_the_callers_request_id_is_global(api: Client):
    mine = "req-2ae3b7a5-4b4c-4f3e-8e4e-0a5f6c6f6a6b"
    answer = api("/v2.1/things/x", X_OpenStack_Request_ID=mine)
    assert answer.json["global_request_id"] == mine
    assert answer.json["request_id"] == answer.headers["x-compute-request-id"] != mine
    assert api("/v2.1/things/x", X_OpenStack_Request_ID="req-mine\nevil").json["global_request_id"] is None


def test_the_request_log(api: Client, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "nova_lite.api.openstack.request_log")
    monkeypatch.setattr(logging, "_logRecordFactory", log.Record)      # as log.setup sets it
    api("/v2.1/things?limit=1", version="2.9")
    api("/v2.1/things/%0aforged", token=None)
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("request_log")]
    assert re.search(r'"GET /v2.1/things\?limit=1" status: 200 len: \d+ microversion: 2.9 time: 0\.\d+', lines[0])
    assert 'status: 401' in lines[1]
    assert "\n" not in lines[1]


# pages -------------------------------------------------------------------------------------------------------------
def walk(api: Client, path: str) -> list[list[str]]:
    pages = []
    while path:
        answer = api(path.removeprefix("http://cloud:8774")).json
        pages.append(answer["things"])
        path = next((link["href"] for link in answer.get("things_links", []) if link["rel"] == "next"), "")
    return pages


def test_pages(api: Client):
    assert walk(api, "/v2.1/demo/things?limit=3&sort_key=name&sort_key=size") == [
        ["t00", "t01", "t02"], ["t03", "t04", "t05"], ["t06"]]
    link = api("/v2.1/things?limit=3&sort_key=name&sort_key=size").json["things_links"][0]["href"]
    assert link == "http://cloud:8774/v2.1/things?limit=3&sort_key=name&sort_key=size&marker=t02"


def test_a_page_holds_no_more_than_max_limit(make: Make):
    api = make(api__max_limit=2)
    assert api("/v2.1/things?limit=0").json["things"] == []
    for query in ("", "?limit=100", "?limit=" + "9" * 5000):
        assert api(f"/v2.1/things{query}").json["things"] == ["t00", "t01"]
    assert "things_links" not in make()("/v2.1/things").json


@pytest.mark.parametrize("limit", ["-1", "x", "1.5", "\u00b2"])
def test_a_bad_limit_is_a_bad_request_without_a_schema_too(make: Make, limit):
    api = make([Route("GET", "/things", lambda req: {"limit": pagination.limit(req)}, None)])
    assert "limit must be" in fault(api(f"/v2.1/things?limit={limit}"), "badRequest", 400)


# the table ---------------------------------------------------------------------------------------------------------
def test_two_routes_for_one_request_are_refused(make: Make):
    def twice(first: str, last: str | None) -> list[Route]:
        return [Route("GET", "/a/{b}", lambda req, b: {}, None, last="2.35"),
                Route("GET", "/a/{b}", lambda req, b: {}, None, first=first, last=last)]
    with pytest.raises(exception.ConfigError, match="two API extensions answer to GET /a/"):
        make(twice("2.35", None))
    make(twice("2.36", None))


def test_an_unknown_policy_is_refused(make: Make):
    with pytest.raises(exception.ConfigError, match="GET /a names the policy os_compute_api:nonsense"):
        make([Route("GET", "/a", lambda req: {}, "os_compute_api:nonsense")])


def test_a_path_without_a_fixed_word_is_refused(make: Make):
    with pytest.raises(exception.ConfigError, match="must begin with a fixed word"):
        make([Route("GET", "/{a}", lambda req, a: {}, None)])


def test_a_broken_schema_is_found_by_the_tests():
    table = registry.Registry([module("m", [Route("POST", "/a", lambda req: {}, None, body={"type": "objekt"})])], True)
    with pytest.raises(exception.ConfigError, match="POST /a: broken schema"):
        table.bind_all()


def test_a_module_without_a_table_is_refused():
    with pytest.raises(exception.ConfigError, match="API extension logging has no table ROUTES"):
        registry.Registry([logging])


def test_an_extension_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    info = tmp_path / "third_party-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nova_lite.test.broken]\nmine = third_party_module\n"
                                           "[nova_lite.test.works]\nmine = third_party_works\n")
    (tmp_path / "third_party_works.py").write_text("ROUTES = []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    # stevedore keeps what it found on disk, by the state of sys.path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    from stevedore import _cache
    monkeypatch.setattr(_cache, "_c", _cache.Cache(str(tmp_path / "cache")))
    with pytest.raises(exception.ConfigError, match=r"API extension mine \(third_party_module\) cannot be loaded: ModuleNotF"):
        registry.load_modules("nova_lite.test.broken")
    assert [found.__name__ for found in registry.load_modules("nova_lite.test.works")] == ["third_party_works"]


def test_a_request_costs_less_than_a_millisecond_and_a_half(make: Make):
    many = [Route("GET", f"/things/{{thing_id}}/part{number}", lambda req, thing_id: {}, None) for number in range(200)]
    api = make([*ROUTES, *many])
    request_environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/v2.1/things/x/part199", "QUERY_STRING": "",
                       "SERVER_NAME": "cloud", "SERVER_PORT": "8774", "wsgi.url_scheme": "http", "wsgi.input": None,
                       "HTTP_X_AUTH_TOKEN": "joe:demo", "HTTP_OPENSTACK_API_VERSION": "compute 2.90"}
    statuses = set()

    def ask() -> None:
        api.app(dict(request_environ), lambda status, headers, exc_info=None: statuses.add(status))
    ask()
    begin = time.process_time()
    for _ in range(200):
        ask()
    assert (time.process_time() - begin) / 200 < 0.0015
    assert statuses == {"200 OK"}
