"""The rounds of a walk: each is walked, comes to rest, is looked at from all sides, and printed."""
from __future__ import annotations

import os
import random
import time

from tests.chaos.walk import SERVERS, Walk
from tests.chaos.walk_checks import Checks

_WANTED = os.environ.get("NOVA_LITE_WALK_SEED", "8")
SEED = random.randrange(1_000_000) if _WANTED == "random" else int(_WANTED)


def walk(checks: Checks, rng: random.Random, rounds: int, size: int = SERVERS) -> None:
    """Walk the cloud of ``checks`` with ``size`` servers. AssertionError with all that is wrong after the first round that did
    not leave it in order."""
    print(f"\nNOVA_LITE_WALK_SEED={SEED}, {rounds} rounds", flush=True)
    cloud, made = checks.cloud, Walk(checks.cloud, rng, size)
    for number in range(1, rounds + 1):
        began = time.monotonic()
        made.round()
        cloud.let_up()
        checks.settled()
        settled = time.monotonic()
        problems = checks.problems(made)
        print(f"round {number}: {settled - began:.0f} s, looked at for {time.monotonic() - settled:.0f} s; killed: "
              f"{', '.join(made.kills)}; {'; '.join(map(str, made.steps))}", flush=True)
        assert not problems, "\n".join([
            f"NOVA_LITE_WALK_SEED={SEED}, round {number}, killed {made.kills}:", *problems, *map(str, made.steps),
            cloud.logs()])
