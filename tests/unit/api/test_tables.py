"""What holds for every route of the installed resource modules."""
from __future__ import annotations

import inspect
import re

import pytest

from nova_lite import policies
from nova_lite.api.openstack import microversions, registry
from nova_lite.api.openstack.routes import as_tuple, at_version

TABLE = registry.Registry(registry.load_modules(), check_schemas=True)
RULES = {rule.name for rule in policies.list_rules()}


def test_every_schema_is_one_at_every_version():
    TABLE.bind_all()        # raises ConfigError for one that is none
    assert len(TABLE.entries) > 100


@pytest.mark.parametrize("entry", TABLE.entries, ids=str)
def test_a_row(entry):
    route = entry.route
    assert route.policy is None or route.policy in RULES
    assert as_tuple(microversions.MIN) <= entry.first <= entry.last
    # the handler takes just what the path names
    names = re.findall(r"{(\w+)}", route.path)
    inspect.signature(route.handler).bind(None, **dict.fromkeys(names, "x"))


@pytest.mark.parametrize("entry", TABLE.entries, ids=str)
def test_a_row_says_what_it_answers(entry):
    """A schema, or a status that has no body, or the schema of no body."""
    codes = entry.route.status.values() if isinstance(entry.route.status, dict) else [entry.route.status]
    assert entry.route.response is not None or set(codes) <= {204, 202} or entry.route.method == "DELETE"


def test_a_query_schema_speaks_of_lists():
    for entry in TABLE.entries:
        for minor in range(1, 105):
            schema = at_version(entry.route.query, f"2.{minor}") or {}
            for name, value in schema.get("properties", {}).items():
                assert value.get("type") == "array", f"{entry}: {name}"
