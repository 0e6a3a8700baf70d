"""benchmarks/fleet runs from end to end: a few hosts on one wire, with servers from the script."""
from __future__ import annotations

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_a_small_fleet_is_measured():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fleet", "--hosts", "4", "--per-process", "4", "--wire", "shared", "--servers", "2",
         "--window", "1", "--events", "20", "--builds", "20"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    run = json.loads(done.stdout)
    size = run["sizes"][0]
    assert run["problems"] == []
    assert size["queues"]["compute"] >= 4
    assert size["events"]["heartbeat"]["statements"] > 0
    assert size["real_rates"]["cpu_conductor"] > 0
    assert all(builds["in ERROR"] == 0 and builds["a second"] > 0 for builds in size["builds"].values())
    assert "Extrapolation" in done.stderr or "One size: no fit." in done.stderr
