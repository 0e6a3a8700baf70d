"""A seeded random walk over all verbs with random kills; after each round the cloud is looked at from all sides.

``NOVA_LITE_WALK_ROUNDS`` and ``NOVA_LITE_WALK_SEED`` (a number, or "random") say how far and which way: ``make walk``.
"""
from __future__ import annotations

import os
import random
import time

import pytest

from tests.chaos.walk import Walk
from tests.chaos.walk_checks import Checks
from tests.chaos.walk_cloud import WalkCloud
from tests.support.fake_neutron import FakeNeutron

ROUNDS = int(os.environ.get("NOVA_LITE_WALK_ROUNDS", "3"))
_WANTED = os.environ.get("NOVA_LITE_WALK_SEED", "8")
SEED = random.randrange(1_000_000) if _WANTED == "random" else int(_WANTED)


@pytest.mark.timeout(300 + 600 * ROUNDS)
def test_a_walk_over_all_verbs_leaves_the_cloud_in_order(engines, tmp_path):
    rng = random.Random(SEED)
    print(f"\nNOVA_LITE_WALK_SEED={SEED} NOVA_LITE_WALK_ROUNDS={ROUNDS}", flush=True)
    with FakeNeutron() as neutron:
        cloud = WalkCloud(tmp_path / "cloud", *engines, neutron, rng)
        try:
            cloud.start()
            walk, checks = Walk(cloud, rng), Checks(cloud)
            for number in range(1, ROUNDS + 1):
                began = time.monotonic()
                walk.round()
                cloud.let_up()
                checks.settled()
                settled = time.monotonic()
                problems = checks.problems(walk)
                print(f"round {number}: {settled - began:.0f} s, looked at for {time.monotonic() - settled:.0f} s; killed: "
                      f"{', '.join(walk.kills)}; {'; '.join(map(str, walk.steps))}", flush=True)
                assert not problems, "\n".join([
                    f"NOVA_LITE_WALK_SEED={SEED}, round {number}, killed {walk.kills}:", *problems,
                    *(str(s) for s in walk.steps), cloud.logs()])
        finally:
            cloud.end()
