"""benchmarks/lists runs from end to end, with two clouds of a few servers."""
from __future__ import annotations

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_small_lists_are_measured():
    command = [sys.executable, "-m", "benchmarks.lists", "--servers", "40,80", "--reps", "1", "--database", "sqlite"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    run = json.loads(done.stdout)
    assert [cloud["servers"] for cloud in run["clouds"]] == [40, 80]
    for cloud in run["clouds"]:
        assert {"first page", "by name, one", "by address, one", "POST with a zone"} <= set(cloud["seconds"])
        assert all(seconds > 0 for seconds in cloud["seconds"].values())
