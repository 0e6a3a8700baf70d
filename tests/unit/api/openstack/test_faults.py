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
    ("no%20database", "serviceUnavailable", 503, "The database does not answer. Try again."),
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


@pytest.mark.parametrize(("path", "method"), [
    ("/v2.1/nowhere", "GET"), ("/v2.1/things/x/y/z", "GET"), ("/v2.1/demo/nowhere", "GET"), ("/v2.1/demo", "GET"),
    ("/v2.1/things/%00", "GET"), ("/v2.1/things/x", "PATCH"), ("/v2.1/things", "PUT"), ("/v2.1/things", "FOO"),
    ("/v2/things", "DELETE")])
def test_an_unknown_path_or_method_is_not_found(api: Client, path, method):
    """Nova's answers, which WebOb makes in the form that Accept asks for: before the microversion is looked at."""
    for accept, kind, body in (
            (None, "text/plain; charset=UTF-8", "404 Not Found\n\nThe resource could not be found.\n\n   "),
            ("application/json", "application/json",
             r'{"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found", '
             r'"title": "Not Found"}'),
            ("*/*", "text/html; charset=UTF-8", "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n"
             "  <h1>404 Not Found</h1>\n  The resource could not be found.<br /><br />\n\n\n\n </body>\n</html>")):
        response = api(path, method, version="2.9999", **({"Accept": accept} if accept else {}))
        assert (response.status, response.text) == ("404 Not Found", body)
        own = {name: value for name, value in response.headers.items() if "request-id" not in name.lower()}
        assert own == {"Content-Type": kind, "Content-Length": str(len(body))}
    assert api(path, "HEAD").body == b""


def test_faults_name_their_charset(api: Client):
    assert api("/v2.1/things/conflict").headers["Content-Type"] == "application/json; charset=UTF-8"


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
