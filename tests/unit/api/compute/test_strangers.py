"""Every route with a server in its path, asked by a member of another project: there is no such server."""
from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from nova_lite.api.openstack import microversions
from nova_lite.api.openstack.routes import Route, at_version, status_at
from nova_lite.api.openstack.validation import Validator
from tests.unit.api.compute.conftest import TABLE

NEWEST = microversions.MAX
LEAVES = (None, {}, {"x": "x"}, [], "x", "1", 1, str(uuid.UUID(int=1)), "192.0.2.1", True)
OF_SERVERS = [entry.route for entry in TABLE.entries if "{server_id}" in entry.route.path]


def example(schema: Any) -> Any:
    """A value that a schema lets through, with no more in it than must be."""
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        value = example({key: part for key, part in schema.items() if key not in ("anyOf", "oneOf")} | one)
        if Validator(schema).error(value) is None:
            return value
    values = [schema["const"]] if "const" in schema else [*schema.get("enum", ()), *LEAVES]
    properties = schema.get("properties", {})
    values.append({name: example(properties[name]) for name in schema.get("required", ()) if name in properties})
    values.append({name: example(part) for name, part in properties.items()})
    values.append([example(schema.get("items", {}))] * schema.get("minItems", 1) if schema.get("type") == "array" else None)
    return next((value for value in values if Validator(schema).error(value) is None), None)


def requests(route: Route) -> list[tuple[str, Any]]:
    """The oldest and the newest version of a route, with a body for each."""
    versions = dict.fromkeys((route.first, route.last or NEWEST))
    found = []
    for version in versions:
        schema = at_version(route.body, version)
        body = example(schema) if schema is not None else {route.action: None} if route.action else None
        assert schema is None or Validator(schema).error(body) is None, f"example() finds no body for {route.path}"
        found.append((version, body))
    return found


def path_of(route: Route, server: str) -> str:
    return re.sub(r"{\w+}", "1", route.path.replace("{server_id}", server))


@pytest.mark.parametrize("route", [route for route in OF_SERVERS if route.server is not None],
                         ids=lambda route: f"{route.method} {route.path} {route.action or ''}")
def test_a_server_of_another_project_is_not_there(cloud, route):
    server = cloud.add_server(host="host1")
    stranger = cloud.client("x", "project2")
    for version, body in requests(route):
        message = stranger.at(version).fault(route.method, path_of(route, server), 404, body)
        assert message == f"Instance {server} could not be found."


@pytest.mark.parametrize("route", [route for route in OF_SERVERS if route.server is None],
                         ids=lambda route: f"{route.method} {route.path} {route.action or ''}")
def test_a_row_that_looks_at_no_server_says_the_same_of_one_that_is_none(cloud, member, route):
    server = cloud.add_server(host="host1")
    assert route.policy is None
    for version, body in requests(route):
        told = {member.at(version).fault(route.method, path_of(route, one), status_at(route, version), body)
                for one in (server, "nowhere")}
        assert len(told) == 1
