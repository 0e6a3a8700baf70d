"""The sample requests of the Compute API's documentation fit our schemas at their microversions.

They lie beside the checkout, in ``../shared/reference/api_samples``, and are no part of the project: without them this tests
nothing.
"""
from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import pytest

from nova_lite.api.openstack import registry
from nova_lite.api.openstack.microversions import as_tuple
from nova_lite.api.openstack.routes import Schema, at_version
from nova_lite.api.openstack.validation import Validator

SAMPLES = pathlib.Path(__file__).parents[4] / "shared/reference/api_samples"
_IS_ANSWER = re.compile(r"-(resp?|get|index|list|details)\b")
_VERSION = re.compile(r"-v2(\d+)\.json|/v2\.(\d+)/")
# sample -> why it fits none
OTHERS = {
    "os-keypairs/v2.92/keypairs-post-req.json": "it has no public_key, without which nothing is made since 2.92",
    "os-server-external-events/event-create-req.json": "test-event is no event, in Nova either",
    **dict.fromkeys(("servers/v2.90/server-create-req.json", "servers/v2.94/server-create-req.json"),
                    "it has no networks, which must be there since 2.37")}
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="there is no ../shared/reference/api_samples")


@pytest.fixture(scope="module")
def table() -> registry.Registry:
    return registry.Registry(registry.load_modules())


def _samples() -> list[str]:
    """Those of requests: most say so in their names, those of actions do not."""
    return sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.json")
                  if "-req" in path.name or not _IS_ANSWER.search(path.name))


def _schemas(table: registry.Registry, version: str) -> list[Schema]:
    """Of all bodies that are read at a microversion."""
    found = [at_version(entry.route.body, version) for entry in table.entries
             if entry.first <= as_tuple(version) <= entry.last]
    return [schema for schema in found if schema]


def _names(schema: Schema, value: Mapping[str, Any]) -> bool:
    """Whether a schema knows the keys of a value by their names."""
    return value.keys() <= dict(schema.get("properties", {})).keys()


def _fault(table: registry.Registry, sample: str) -> str:
    """Why a sample fits no schema; empty: it fits one. One that names the sample's keys goes before one for any keys."""
    match = _VERSION.search(sample)
    version = f"2.{match[1] or match[2]}" if match else "2.1"
    value = json.loads((SAMPLES / sample).read_text())
    schemas = _schemas(table, version)
    faults = [Validator(schema).error(value) for schema in [s for s in schemas if _names(s, value)] or schemas]
    return "" if None in faults else "; ".join(sorted({fault.message[:200] for fault in faults if fault}))


@pytest.mark.parametrize("sample", _samples())
def test_a_sample_fits(table: registry.Registry, sample: str) -> None:
    fault = _fault(table, sample)
    if sample in OTHERS:
        assert fault, f"{sample} fits: {OTHERS[sample]} holds no longer"
    else:
        assert not fault, fault


def test_each_exception_is_a_sample() -> None:
    assert not OTHERS.keys() - set(_samples())
