"""What holds for every route of the installed resource modules."""
from __future__ import annotations

import inspect
import re

import pytest

from nova_lite.api.openstack import microversions, registry, rules
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.routes import at_version, response_at

TABLE = registry.Registry(registry.load_modules(), check_schemas=True)
NEWEST = (2, 104)
RULES = {rule.name for rule in rules.list_rules()}


def test_every_schema_is_one_at_every_version():
    TABLE.bind_all()        # raises ConfigError for one that is none
    assert len(TABLE.entries) > 100


@pytest.mark.parametrize("entry", TABLE.entries, ids=str)
def test_a_row(entry):
    route = entry.route
    assert route.rule is None or route.rule in RULES
    assert as_tuple(microversions.MIN) <= entry.first <= entry.last
    # the handler takes just what the path names; the server itself for its id
    names = re.findall(r"{(\w+)}", route.path if route.server is None else route.path.replace("{server_id}", "{instance}"))
    for function in filter(None, (route.handler, route.target)):
        inspect.signature(function).bind(None, **dict.fromkeys(names, "x"))


@pytest.mark.parametrize("entry", TABLE.entries, ids=str)
def test_a_row_says_what_it_answers(entry):
    """At every version: a schema, if only that of no body."""
    for minor in range(entry.first[1], min(entry.last, NEWEST)[1] + 1):
        assert response_at(entry.route, f"2.{minor}") is not None, minor


def _open_objects(schema, path=""):
    """The paths of objects of which a schema says nothing."""
    if isinstance(schema, list):
        return [found for one in schema for found in _open_objects(one, path)]
    if not isinstance(schema, dict):
        return []
    found = []
    if "object" in schema.get("type", ()) and not {"properties", "additionalProperties", "maxProperties"} & set(schema):
        found.append(path)
    for name, one in schema.get("properties", {}).items():
        found += _open_objects(one, f"{path}.{name}")
    for key in ("items", "additionalProperties", "anyOf", "oneOf"):
        found += _open_objects(schema.get(key), path)
    return found


@pytest.mark.parametrize("entry", TABLE.entries, ids=str)
def test_what_an_answer_holds_is_said(entry):
    """Only what other programs put there, or what a user may name freely, is open."""
    allowed = (".cpu_info", ".image.properties")
    for minor in range(entry.first[1], min(entry.last, NEWEST)[1] + 1):
        found = _open_objects(response_at(entry.route, f"2.{minor}"))
        assert [path for path in found if not path.endswith(allowed)] == [], minor


def test_a_query_schema_speaks_of_lists():
    for entry in TABLE.entries:
        for minor in range(1, 105):
            schema = at_version(entry.route.query, f"2.{minor}") or {}
            for name, value in schema.get("properties", {}).items():
                assert value.get("type") == "array", f"{entry}: {name}"
