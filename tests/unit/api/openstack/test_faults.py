from __future__ import annotations

import io

import pytest
import webob

from tests.unit.api.conftest import Client, Make, fault


@pytest.mark.parametrize(("thing", "name", "code", "message"), [
    ("conflict", "conflictingRequest", 409, "Flavor with name x already exists."),
    ("safe", "computeFault", 500, "No valid host was found. 12 hosts, RamFilter left 0"),
    ("unsupported", "notImplemented", 501, "The driver of this host does not support: pause"),
    ("gone", "computeFault", 410, "long gone"),
    ("slow", "overLimit", 429, "slower"),
    ("large", "overLimit", 413, "Request is too large. The limit is 7 bytes."),
])
def test_an_error_becomes_a_fault(api: Client, thing, name, code, message):
    assert fault(api(f"/v2.1/things/{thing}"), name, code) == message


@pytest.mark.parametrize("thing", ["slow", "large"])
def test_over_limit_says_when_to_come_again(api: Client, thing):
    response = api(f"/v2.1/things/{thing}")
    assert response.headers["Retry-After"] == "0"
    assert response.json["overLimit"]["retryAfter"] == "0"


@pytest.mark.parametrize(("thing", "kind"), [("bug", "tests.unit.api.conftest.Oops"),
                                             ("hidden", "nova_lite.exception.base.NovaLiteError")])
def test_an_unexpected_error_names_its_class_and_hides_its_text(api: Client, caplog, thing, kind):
    response = api(f"/v2.1/things/{thing}")
    message = fault(response, "computeFault", 500)
    assert message.startswith("Unexpected API Error.")
    assert message.endswith(f"<class '{kind}'>")
    assert "swordfish" not in response.text
    assert "internals" not in response.text
    assert any(record.exc_info for record in caplog.records)


def test_a_wrong_method_is_told_the_right_ones(api: Client):
    response = api("/v2.1/things/x", "PATCH")
    fault(response, "badMethod", 405)
    assert response.headers["Allow"] == "DELETE, GET"


@pytest.mark.parametrize("path", ["/v2.1/nowhere", "/v2.1/things/x/y/z", "/v2.1/demo/nowhere", "/v2.1/demo",
                                  "/v2.1/things/%00"])
def test_an_unknown_path_is_not_found(api: Client, path):
    assert fault(api(path), "itemNotFound", 404) == "The resource could not be found."


def test_a_path_that_is_not_utf8_is_a_bad_request(api: Client):
    fault(api("/v2.1/things/%ff"), "badRequest", 400)


def test_a_failing_filter_becomes_a_fault(make: Make, monkeypatch):
    monkeypatch.setattr("nova_lite.api.auth.RequestContext.from_environ", lambda environ: 1 / 0)
    assert "ZeroDivisionError" in fault(make()("/v2.1/things/x"), "computeFault", 500)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused(make: Make, chunked):
    api = make()
    body = b'{"thing": {"name": "n", "notes": {"a": "' + b"x" * 114_688 + b'"}}}'
    if chunked:
        request = webob.Request.blank("/v2.1/things", method="POST", headers={"X-Auth-Token": "joe:demo"})
        request.environ.update({"wsgi.input": io.BytesIO(body), "wsgi.input_terminated": True,
                                "CONTENT_TYPE": "application/json", "HTTP_TRANSFER_ENCODING": "chunked"})
        request.environ.pop("CONTENT_LENGTH", None)
        response = request.get_response(api.app)
    else:
        response = api("/v2.1/things", "POST", body)
    assert fault(response, "overLimit", 413) == "Request is too large. The limit is 114688 bytes."
    assert api("/v2.1/things", "POST", {"thing": {"name": "n"}}).status_code == 200
