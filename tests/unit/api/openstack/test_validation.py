from __future__ import annotations

import json

import pytest

from nova_lite import exception
from nova_lite.api.openstack import formats, parameters
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.routes import at_version
from nova_lite.api.openstack.validation import Validator
from tests.unit.api.conftest import Client, Make, fault


def post(api: Client, thing, **kwargs):
    return api("/v2.1/things", "POST", {"thing": thing}, **kwargs)


@pytest.mark.parametrize(("thing", "message"), [
    ({"name": 3}, "Invalid input for field/attribute name. Value: 3. 3 is not of type 'string'"),
    ({"name": "n", "size": 0}, "Invalid input for field/attribute size. Value: 0. 0 is less than the minimum of 1"),
    ({"name": "n", "size": "0"}, "Invalid input for field/attribute size. Value: 0. '0' is less than the minimum of 1"),
    ({"name": "n", "size": "9" * 12}, "Invalid input for field/attribute size. Value: 999999999999. '999999999999' is greater "
                                      "than the maximum of 2147483647"),
    ({}, "Invalid input for field/attribute thing. Value: {}. 'name' is a required property"),
    ({"name": "n", "x": 1}, "Invalid input for field/attribute thing. Value: {'name': 'n', 'x': 1}. Additional properties are "
                            "not allowed ('x' was unexpected)"),
    ({"name": "n", "id": "nope"}, "Invalid input for field/attribute id. Value: nope. 'nope' is not a 'uuid'"),
    ({"name": "n", "data": "*"}, "Invalid input for field/attribute data. Value: *. '*' is not a 'base64'"),
    ({"name": "n", "address": "1.2.3"}, "Invalid input for field/attribute address. Value: 1.2.3. '1.2.3' is not a 'ipv4'"),
    ({"name": " n"}, "Invalid input for field/attribute name. Value:  n. An invalid 'name' value was provided. The name must "
                     "be: printable characters. Can not start or end with whitespace."),
    ({"name": "n", "count": 1.0}, "Invalid input for field/attribute count. Value: 1.0. 1.0 is not of type 'integer'"),
    ({"name": "n", "count": True}, "Invalid input for field/attribute count. Value: True. True is not of type 'integer'"),
])
def test_a_bad_body_is_told_with_path_value_and_reason(api: Client, thing, message):
    assert fault(post(api, thing), "badRequest", 400) == message


@pytest.mark.parametrize("number", ["\n", "7\n", " 7"])
def test_a_number_has_nothing_around_it(number):
    assert Validator({"type": "object", "properties": {"n": parameters.POSITIVE_INTEGER}}).error({"n": number})


def test_a_good_body_reaches_the_handler(api: Client):
    thing = {"name": "n\u00e4me", "size": "7", "id": "0" * 32, "data": "aGVsbG8=", "address": "10.0.0.1"}
    assert post(api, thing).json == {"thing": thing}


def test_the_schema_of_the_version_holds(api: Client):
    fault(post(api, {"name": "n", "description": "d"}, version="2.18"), "badRequest", 400)
    assert post(api, {"name": "n", "description": "d"}, version="2.20").status_code == 201


def test_a_long_value_is_cut_in_the_message(api: Client):
    message = fault(post(api, {"name": "n", "id": "x" * 50_000}), "badRequest", 400)
    assert len(message) < 2500


@pytest.mark.parametrize("body", [
    {"server": {"adminPass": ["s3cret"]}}, {"server": {"adminPass": "s3cret" * 400}}, {"server": {"user_data": "s3cret!"}},
    {"server": {"adminPass": "s3cret", "extra": 1}}, {"server": [{"adminPass": "s3cret"}]},
    {"server": {"personality": [{"path": 1, "contents": "s3cret"}]}}, {"server": {"personality": "s3cret"}},
    {"server": {"personality": [{"path": "p", "contents": "s3cret!"}]}},
    {"changePassword": {"adminPass": "s3cret"}, "x": 1}, [{"adminPass": "s3cret"}],
    {"server": {"metadata": {"password": "s3cret"}, "extra": 1}}, {"server": {"either": {"adminPass": "s3cret"}}}])
def test_no_fault_repeats_a_secret(body):
    server = {"adminPass": {"type": "string", "maxLength": 1024}, "user_data": {"type": "string", "format": "base64"},
              "personality": {"type": "array", "items": {"type": "object", "properties": {
                  "path": {"type": "string"}, "contents": {"type": "string", "format": "base64"}}}},
              "metadata": {"type": "object"}, "either": {"oneOf": [{"type": "string"}, {"type": "array"}]}}
    validator = Validator({"type": "object", "additionalProperties": False, "required": ["server"], "properties": {
        "server": {"type": "object", "additionalProperties": False, "properties": server}}})
    with pytest.raises(exception.ValidationError) as caught:
        validator.check(body)
    assert "s3cret" not in caught.value.message
    assert caught.value.message


def test_v2_drops_what_the_schema_does_not_know(api: Client):
    response = api("/v2/things", "POST", {"thing": {"name": "n", "novel": 1}, "more": 2})
    assert response.json == {"thing": {"name": "n"}}
    fault(api("/v2/things", "POST", {"thing": {"name": 3}}), "badRequest", 400)


@pytest.mark.parametrize("body", [
    b"", b"{", b"null x", b"\xff\xfe", b'{"thing": NaN}', b'{"thing": {"name": "n", "notes": {"a": 1e999}}}',
    b'{"thing": {"name": "\\ud800"}}', b'{"thing": {"name": "n", "notes": {"a": "\\u0000"}}}', b"[" * 100_000,
    b'{"thing": {"name": "n", "notes": ' + b'{"a":' * 900 + b"1" + b"}" * 902])
def test_what_is_not_json_for_every_store_is_malformed(api: Client, body):
    assert fault(api("/v2.1/things", "POST", body), "badRequest", 400) == "Malformed request body"


def test_text_that_looks_like_an_escape_is_none(api: Client):
    thing = {"name": "n", "notes": {"a": "\\d800", "b": "\u00e9\U0001f600", "c": "C:\\users"}}
    assert post(api, thing).json == {"thing": thing}


@pytest.mark.parametrize("body", ["x", 3, None, ["thing"], {"thing": None}])
def test_another_type_than_an_object_is_refused(api: Client, body):
    fault(api("/v2.1/things", "POST", json.dumps(body).encode()), "badRequest", 400)


@pytest.mark.parametrize("content_type", ["application/xml", "text/html", "application/x-www-form-urlencoded"])
def test_other_content_types_are_refused(api: Client, content_type):
    response = api("/v2.1/things", "POST", {"thing": {"name": "n"}}, Content_Type=content_type)
    assert content_type in fault(response, "badMediaType", 415)


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=UTF-8",
                                          "application/vnd.openstack.compute+json"])
def test_json_content_types(api: Client, content_type):
    assert api("/v2.1/things", "POST", {"thing": {"name": "n"}}, Content_Type=content_type).status_code == 200


@pytest.mark.parametrize("length", ["-1", "abc", "1_0", "\u00b2"])
def test_a_broken_content_length_is_a_bad_request(api: Client, length):
    environ_response = api("/v2.1/things", "POST", {"thing": {"name": "n"}}, Content_Length=length)
    fault(environ_response, "badRequest", 400)


# queries -----------------------------------------------------------------------------------------------------------
def test_a_query_reaches_the_handler_as_lists(api: Client):
    answer = api("/v2.1/things?sort_key=name&sort_key=size&limit=3").json
    assert answer["query"] == {"sort_key": ["name", "size"], "limit": ["3"]}


def test_unknown_keys_of_a_query_are_dropped_below_strict(api: Client):
    answer = api("/v2.1/things?limit=3&color=red&color=", version="2.74").json
    assert answer["query"] == answer["seen"] == {"limit": ["3"]}


def test_unknown_keys_of_a_query_are_refused_where_the_schema_says_so(api: Client):
    message = fault(api("/v2.1/things?color=red", version="2.75"), "badRequest", 400)
    assert message == "Additional properties are not allowed ('color' was unexpected)"


def test_unknown_keys_are_refused_everywhere_from_2_102(make: Make):
    api = make()
    assert api("/v2.1/plain?color=red", version="2.101").json == {"query": {"color": ["red"]}}
    fault(api("/v2.1/plain?color=red", version="2.102"), "badRequest", 400)
    assert api("/v2.1/plain", version="2.102").status_code == 200


@pytest.mark.parametrize(("query", "message"), [
    ("sort_key=color", "Invalid input for query parameters sort_key. Value: color. 'color' is not one of ['name', 'size']"),
    ("sort_key=name&sort_key=color",
     "Invalid input for query parameters sort_key. Value: color. 'color' is not one of ['name', 'size']"),
    ("limit=-1", "Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'"),
    ("limit=1&limit=2", "Invalid input for query parameters limit. Value: ['1', '2']. ['1', '2'] is too long"),
    ("marker=a%00", "Query string holds a NUL character"),
    ("sort_key=%ff", "Query string is not UTF-8 encoded"),
])
def test_a_bad_query_names_the_parameter(api: Client, query, message):
    assert fault(api(f"/v2.1/things?{query}"), "badRequest", 400).startswith(message)


# formats -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "good", "bad"), [
    ("uuid", ["3d07ba0e-4d4f-4d1e-9d9c-0a5f6c6f6a6b", "3D07BA0E4D4F4D1E9D9C0A5F6C6F6A6B"], ["", "3d07ba0e", "g" * 32]),
    ("base64", ["aGVsbG8=", "aGVs\nbG8=", ""], ["aGVsbG8", "*", "\u00e4"]),
    ("ipv4", ["10.0.0.1"], ["10.0.0.256", "::1", "10.0.0"]),
    ("ipv6", ["::1", "fe80::1"], ["10.0.0.1", "fe80:::1"]),
    ("cidr", ["10.0.0.0/8", "10.0.0.1/8", "fe80::/64"], ["10.0.0.1", "10.0.0.0/33"]),
    ("mac-address", ["fa:16:3e:00:00:01"], ["fa:16:3e:00:00", "fa-16-3e-00-00-01"]),
    ("date-time", ["2026-11-21T04:00:00Z", "2026-11-21T04:00:00"], ["yesterday", "2026-13-01T00:00:00Z"]),
    ("regex", ["^a.*"], ["(", "*"]),
    ("uri", ["http://host/path"], ["host"]),
    ("name", ["a", "\u00e4 b"], [" a", "a ", "", " ", "a\tb", "a\u200b"]),
    ("az_name", ["nova"], ["nova:host", " nova"]),
])
def test_formats(name, good, bad):
    validator = Validator({"format": name})
    assert [value for value in good if validator.error(value)] == []
    assert [value for value in bad if not validator.error(value)] == []
    assert validator.error(3) is None
    assert name in formats.CHECKER.checkers


def test_at_version_takes_the_newest_that_is_not_newer():
    table = {"2.1": {"a": 1}, "2.19": {"b": 1}, "2.100": None}
    assert at_version(table, "2.18") == {"a": 1}
    assert at_version(table, "2.99") == {"b": 1}
    assert at_version(table, "2.100") is None
    assert at_version({"type": "object"}, "2.5") == {"type": "object"}
    assert as_tuple("2.10") > as_tuple("2.9")


def test_numbers_of_thousands_of_digits_are_numbers_too():
    validator = Validator({"type": ["integer", "string"], "minimum": 0, "maximum": 10})
    assert validator.error("9" * 5000) is not None
    assert validator.error("-" + "9" * 5000) is not None
    assert validator.error("10") is None


@pytest.mark.parametrize("order", [("format", "maxLength"), ("maxLength", "format")])
@pytest.mark.parametrize("relaxed", [False, True])
def test_what_is_too_long_is_looked_at_no_further(order, relaxed):
    """Whatever the order of the schema is: a check may take long for a long text."""
    rules = {"format": "regex", "maxLength": 5}
    validator = Validator({"type": "string", **{name: rules[name] for name in order}, "pattern": "^a*$"}, relaxed)
    assert [fault.validator for fault in validator._validator.iter_errors("(((((b")] == ["maxLength"]
    assert {fault.validator for fault in validator._validator.iter_errors("(b")} == {"format", "pattern"}
    assert validator.error("aaaaa") is None
