"""The OpenAPI document: valid by a public validator at every kind of microversion, and the same table as the router's."""
import argparse
import json

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from nova_lite import conf as nova_conf
from nova_lite import exception, manage
from nova_lite.api.compute import openapi
from nova_lite.api.openstack import microversions
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.registry import Registry, load_modules


@pytest.mark.parametrize("version", ["2.1", "2.36", "2.75", microversions.MAX])
def test_the_document_is_valid_and_complete(version):
    document = openapi.document(version)
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    assert document["info"]["version"] == version
    served = {(entry.route.method.lower(), entry.route.path) for entry in Registry(load_modules()).entries
              if entry.first <= as_tuple(version) <= entry.last}
    told = {(method, path) for path, item in document["paths"].items() for method in item if method != "parameters"}
    assert told == served
    json.dumps(document)        # nothing in it that is not JSON


def test_a_summary_is_one_whole_sentence():
    document = openapi.document("2.90")
    found = [item[method]["summary"] for item in document["paths"].values() for method in item if method != "parameters"]
    assert [text for text in found if not text.startswith("One of the actions ") and not text.endswith(".")] == []
    assert [text for text in found if ". " in text] == []


def test_a_route_is_told_only_where_it_is_served():
    assert "/servers/{server_id}/tags" not in openapi.document("2.25")["paths"]
    assert "/servers/{server_id}/tags" in openapi.document("2.26")["paths"]


def test_both_answers_of_a_route_with_two_are_told():
    answers = openapi.document("2.96")["paths"]["/servers/{server_id}/tags/{tag}"]["put"]["responses"]
    assert {code for code in answers if code.startswith("2")} == {"201", "204"}


def test_every_fault_of_the_framework_is_told():
    answers = openapi.document("2.96")["paths"]["/flavors"]["post"]["responses"]
    assert {"400", "401", "403", "404", "406", "409", "413", "414", "415", "501", "503"} <= set(answers)


def test_parameters_of_a_pattern_are_told():
    document = openapi.document("2.1")
    for path, name in (("/images", "property-x"), ("/servers", "_x")):
        (found,) = (p for p in document["paths"][path]["get"]["parameters"] if p.get("schema", {}).get("type") == "object")
        assert (found["in"], found["style"], found["explode"]) == ("query", "form", True)
        check = jsonschema.Draft202012Validator(found["schema"])
        assert check.is_valid({name: "1"})
        assert not check.is_valid({"other": "1"})


def test_headers_of_answers_are_told():
    document = openapi.document("2.44")
    known = document["components"]["headers"]
    assert known["OpenStack-API-Version"]["schema"]["const"] == "compute 2.44"
    answer = document["paths"]["/servers"]["post"]["responses"]["202"]
    assert set(answer["headers"]) == {*known, "Location"}
    assert set(document["paths"]["/servers"]["get"]["responses"]["200"]["headers"]) == set(known)
    assert "Retry-After" in document["components"]["responses"]["413"]["headers"]


@pytest.mark.parametrize(("version", "told"), [("2.44", {"Location"}), ("2.45", set())])
def test_headers_go_by_microversion(version, told):
    (entry,) = (e for e in Registry(load_modules()).entries if e.route.action == "createImage")
    assert set(entry.at(version, legacy=False).headers) == told


def test_actions_are_one_operation_with_a_body_for_each():
    bodies = openapi.document("2.96")["paths"]["/servers/{server_id}/action"]["post"]["requestBody"]
    titles = {schema["title"] for schema in bodies["content"]["application/json"]["schema"]["oneOf"]}
    assert {"os-start", "os-stop", "reboot", "pause"} <= titles


@pytest.mark.parametrize("version", ["2.0", "2.9999", "three"])
def test_other_versions_are_refused(version):
    with pytest.raises(exception.NovaLiteError) as caught:
        openapi.document(version)
    assert caught.value.code in (400, 406)


def test_the_command_prints_it(capsys):
    command = next(c for c in manage.COMMANDS if (c.area, c.name) == ("api", "openapi"))


    command.function(nova_conf.load([], config_files=[]), argparse.Namespace(microversion="2.96"))
    assert json.loads(capsys.readouterr().out)["openapi"] == "3.1.0"
