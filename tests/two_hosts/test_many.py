"""Live migrations there and back, as many as NOVA_LITE_MIGRATIONS says; in every fifth the daemon of the source is killed."""
from __future__ import annotations

import os
import statistics
from functools import partial

from tests.two_hosts import hosts
from tests.two_hosts.cloud import Cloud, counts
from tests.two_hosts.pings import Pings, until_it_answers

MOST_SECONDS = 1.0      # without an answer, in the median
MIGRATIONS = int(os.environ.get("NOVA_LITE_MIGRATIONS", "10"))


def test_no_guest_is_reset_and_no_write_is_lost(cloud: Cloud) -> None:
    server = cloud.boot(cloud.node)
    address = cloud.address(server)
    until_it_answers(address)
    last, boots = 0, set[str]()
    gaps: dict[str, list[float]] = {"alone": [], "killed": []}
    for number in range(1, MIGRATIONS + 1):
        source, is_killed = cloud.host(server), number % 5 == 0
        with Pings(address) as pings:
            cloud.live_migrate(server, partial(_kill, source) if is_killed else None)
        gaps["killed" if is_killed else "alone"].append(round(pings.gap, 1))
        told, seen = counts(cloud.console(server))
        boots |= seen
        assert len(boots) == 1, f"reset in migration {number}: {boots}"
        assert told == sorted(set(told)), f"a write was lost in migration {number}: {told[-20:]}"
        assert told[-1] > last
        last = told[-1]
        print(f"migration {number} from {source}{', its daemon killed' if is_killed else ''}: {pings.gap:.1f} s", flush=True)
    gaps["all"] = gaps["alone"] + gaps["killed"]
    for kind, found in gaps.items():
        if found:
            print(f"{kind}: {len(found)} migrations, median {statistics.median(found):.1f} s, longest {max(found):.1f} s")
        # the median of two is the longer one's
        assert len(found) < 5 or statistics.median(found) <= MOST_SECONDS, kind


def _kill(source: str) -> None:
    hosts.kill(hosts.files_of(source).compute)
    hosts.mend()
