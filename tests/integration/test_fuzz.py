"""A short, repeatable run of what ``make fuzz`` does for 20 minutes: the edge cases of the schemas of servers."""
from __future__ import annotations

from nova_lite.api.openstack import microversions
from tests.fuzz.run import run_all


def test_no_answer_outside_its_schema_and_nothing_of_others(tmp_path):
    found = run_all(tmp_path, 0.8, 1, "^/servers", ["demo", "admin"], [microversions.MAX], "--phases", "coverage")
    assert [run["failed"] for run in found] == [[], []]
