"""A seeded random walk over all verbs with random kills; after each round the cloud is looked at from all sides.

``NOVA_LITE_WALK_ROUNDS`` and ``NOVA_LITE_WALK_SEED`` (a number, or "random") say how far and which way: ``make walk``.
"""
from __future__ import annotations

import os
import random

import pytest

from tests.chaos import rounds
from tests.chaos.walk_checks import Checks
from tests.chaos.walk_cloud import WalkCloud
from tests.support.fake_neutron import FakeNeutron

ROUNDS = int(os.environ.get("NOVA_LITE_WALK_ROUNDS", "3"))


@pytest.mark.timeout(300 + 600 * ROUNDS)
def test_a_walk_over_all_verbs_leaves_the_cloud_in_order(engines, tmp_path):
    rng = random.Random(rounds.SEED)
    with FakeNeutron() as neutron:
        cloud = WalkCloud(tmp_path / "cloud", *engines, neutron, rng)
        try:
            cloud.start()
            rounds.walk(Checks(cloud), rng, ROUNDS)
        finally:
            cloud.end()
