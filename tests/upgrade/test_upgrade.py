"""A cloud of an older release is upgraded as docs/operators.md says: every server goes on, every open action ends.

``make upgrade-test``; ``NOVA_LITE_UPGRADE_FROM`` names the release.
"""
from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from nova_lite.db import models
from tests.chaos.conftest import engines as engines
from tests.chaos.walk import GONE, Walk
from tests.chaos.walk_checks import Checks
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.fake_neutron import FakeNeutron
from tests.support.process import wait_for
from tests.upgrade import cases
from tests.upgrade.cloud import DOOMED, HOSTS, ORDER, UpgradedCloud

pytestmark = pytest.mark.timeout(3600)
AT_ONCE = 4
QUIET: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"quiet-{status.lower()}": (status, {}) for status in cases.LEADS_TO},
    **{f"quiet-{status.lower()}-volumes": (status, {"more": ("volume", "data")}) for status in (
        "ACTIVE", "SHUTOFF", "PAUSED", "VERIFY_RESIZE", "SHELVED_OFFLOADED")},
    "quiet-described": ("ACTIVE", {"metadata": {"a": "b"}, "tags": ["one"], "description": "as it was", "config_drive": True})}
WAY_ON = {"SHUTOFF": "os-start", "PAUSED": "unpause", "SUSPENDED": "resume", "RESCUE": "unrescue", "SHELVED": "unshelve",
          "SHELVED_OFFLOADED": "unshelve", "SOFT_DELETED": "restore"}


@pytest.fixture
def cloud(engines: tuple[RabbitMQ, MariaDB], tmp_path: Any) -> Iterator[UpgradedCloud]:
    with FakeNeutron() as neutron:
        made = UpgradedCloud(tmp_path / "cloud", *engines, neutron)
        try:
            yield made
        finally:
            made.end()


class Upgrade:
    """The tale of one cloud."""

    def __init__(self, cloud: UpgradedCloud) -> None:
        self.cloud, self.checks = cloud, Checks(cloud)
        self.quiet = list(QUIET)

    def fill(self) -> None:
        """Servers in every state, and one for each case."""
        cloud = self.cloud
        cloud.start_old()
        group = cloud.old_user().ok("POST", "/os-server-groups", json={"server_group": {
            "name": "apart", "policy": "anti-affinity"}})["server_group"]["id"]
        wanted = [(name, status, dict(values)) for name, (status, values) in QUIET.items()]
        wanted += [(case.name, case.since, {"more": case.more}) for case in cases.CASES if case.since]
        doomed = [one for one in wanted if "doomed" in one[2].get("more", ())]
        self._make(doomed)
        cloud.processes[DOOMED].kill()
        cloud.force_down(DOOMED, True)
        self._make([one for one in wanted if one not in doomed])
        for number in (1, 2):
            cloud.make(f"quiet-group-{number}", "ACTIVE", number, group=group)
        self._in_trouble()
        self.quiet += ["quiet-group-1", "quiet-group-2", "quiet-error", "quiet-error-guest", "quiet-locked"]

    def _make(self, wanted: list[tuple[str, str, dict[str, Any]]]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for made in [pool.submit(self.cloud.make, name, status, number, **values)
                         for number, (name, status, values) in enumerate(wanted)]:
                made.result()

    def _in_trouble(self) -> None:
        cloud, user = self.cloud, self.cloud.old_user()
        (cloud.holds / "quiet-error@spawn").write_text("fail")
        cloud.boot("quiet-error")
        user.wait(cloud.servers_of["quiet-error"], "ERROR", 120)
        cloud.make("quiet-error-guest", "ACTIVE", 0)
        user.action(cloud.servers_of["quiet-error-guest"], "os-resetState", {"state": "error"})
        cloud.make("quiet-locked", "ACTIVE", 1)
        user.action(cloud.servers_of["quiet-locked"], "lock", {"locked_reason": "until it is upgraded"})

    def hold(self) -> None:
        """Every verb in the middle. A copy holds the place of all copies of its host, so it comes last."""
        held = [case for case in cases.CASES if case.at is not None]
        held.sort(key=lambda case: case.at == "live_migration")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            missed = [text for text in pool.map(self.cloud.hold, held[:-1]) if text]
        missed += [text for text in [self.cloud.hold(held[-1])] if text]
        assert not missed, "\n".join(missed)

    def ask(self, wanted: list[cases.Case]) -> None:
        """Requests that nobody but the API has heard of, or not much more."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            refused = [str(step) for step in pool.map(self.cloud.ask, wanted) if not 200 <= (step.status or 0) < 300]
        assert not refused, "\n".join(refused)

    def evacuations_without_host(self) -> int:
        """How many wait for a conductor."""
        table = models.instance_actions.c
        with self.cloud.engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).where(
                table.action == "evacuate", table.stage == "conductor", table.state.in_(("pending", "running")))) or 0

    def look(self, before: Any) -> None:
        """All has ended as it must, and what was quiet is as it was."""
        self.checks.settled()
        cloud, after = self.cloud, self.cloud.seen(self.quiet)
        changed = [f"{name}: {what} was {was}, is {after[name][part].get(what)}" for name, seen in before.items()
                   for part, values in seen.items() for what, was in values.items()
                   # a server without nics has no groups: 7e3bb42 named "default"
                   if after[name][part].get(what) != was and (what != "security_groups" or seen["server"]["addresses"])]
        assert not changed, "\n".join(changed)
        ends = {case.name: case.ends for case in cases.CASES}
        ends |= {name: seen["server"]["status"] for name, seen in before.items()}
        servers = cloud.servers()
        now = {name: servers[uuid]["status"] if uuid in servers else GONE for name, uuid in cloud.servers_of.items()}
        wrong = {name: (now[name], end, servers.get(cloud.servers_of[name], {}).get("fault"))
                 for name, end in ends.items() if name in now and now[name] != end}
        assert not wrong, wrong
        undone = {case.name for case in cases.CASES if case.undone}
        self.in_order(ends, [step for step in cloud.steps if step.verb not in undone])

    def in_order(self, ends: dict[str, str], steps: Any = ()) -> None:
        """Claims, guests, ports, volumes, images belong to servers."""
        cloud = self.cloud
        before = {cloud.servers_of[name]: {"status": end} for name, end in ends.items() if name in cloud.servers_of}
        walk = Walk(cloud, random.Random(0), before=before, steps=list(steps), volumes=set(cloud.volumes_made))
        reset = f"{cloud.servers_of['quiet-error-guest']} is in ERROR, and the API does not say why"       # by an admin
        problems = [problem for problem in self.checks.problems(walk) if problem != reset]
        assert not problems, "\n".join(problems)

    def go_on(self) -> None:
        """Each server through its API, at the oldest and at the newest microversion."""
        cloud, servers = self.cloud, self.cloud.servers()
        user = cloud.old_user()
        if any(servers[u]["locked"] for u in servers):
            user.action(cloud.servers_of["quiet-locked"], "unlock")
        ends = {}
        for number, (name, uuid) in enumerate(sorted((n, u) for n, u in cloud.servers_of.items() if u in servers)):
            client = cloud.client(user.token, ("2.1", cases.NEWEST)[number % 2])
            ends[name] = self._send_on(client, uuid, servers[uuid], number)
        self.checks.settled()
        now = {uuid: server["status"] for uuid, server in cloud.servers().items()}
        wrong = {name: (now.get(cloud.servers_of[name]), end) for name, end in ends.items()
                 if now.get(cloud.servers_of[name]) != end}
        assert not wrong, wrong
        self.in_order(ends)

    def _send_on(self, client: Any, uuid: str, server: dict[str, Any], number: int) -> str:
        status = server["status"]
        if status == "VERIFY_RESIZE":
            verb = ("confirmResize", "revertResize")[number // 2 % 2]
            client.action(uuid, verb)
            stopped = server["OS-EXT-STS:power_state"] == 4
            return "SHUTOFF" if stopped else "ACTIVE"
        if status == "ERROR":
            if not server["OS-EXT-SRV-ATTR:host"]:
                return "ERROR"
            client.action(uuid, "reboot", {"type": "HARD"})
            return "ACTIVE"
        if status == "ACTIVE":
            verb, argument, end = (("os-stop", None, "SHUTOFF"), ("pause", None, "PAUSED"), ("migrate", None, "VERIFY_RESIZE"),
                                   ("os-migrateLive", {"host": None, "block_migration": "auto"}, "ACTIVE"),
                                   ("shelve", None, "SHELVED"))[number // 2 % 5]
            if verb == "os-migrateLive":
                client.ok("POST", f"/servers/{uuid}/action", cases.NEWEST, json={verb: argument})
            else:
                client.action(uuid, verb, argument)
            # a server on a volume leaves its host at once
            return "SHELVED_OFFLOADED" if verb == "shelve" and not server["image"] else end
        client.action(uuid, WAY_ON[status])
        return "ACTIVE"

    def delete_all(self) -> None:
        """Nothing is left over."""
        cloud, user = self.cloud, self.cloud.old_user()
        for uuid in cloud.servers():
            user.action(uuid, "forceDelete")
        wait_for("the servers to be gone", lambda: not cloud.servers(), 240, 1)
        self.checks.settled()
        self.in_order({})
        wait_for("the guests to go", lambda: not any(cloud.guests().values()), 120, 1)
        with cloud.engine.connect() as connection:
            nodes = connection.execute(sa.select(models.compute_nodes)).mappings().all()
            assert {(n["vcpus_used"], n["memory_mb_used"], n["instances_used"]) for n in nodes} == {(0, 0, 0)}
            assert connection.execute(sa.select(models.allocations)).all() == []


def _end(tale: Upgrade, before: Any) -> None:
    # the first question may find no scheduler, and a host that counts as up again keeps its servers
    wait_for("each evacuation to have its new host", lambda: not tale.evacuations_without_host(), 120, 0.5)
    tale.cloud.force_down(DOOMED, False)
    began = time.monotonic()
    tale.look(before)
    print(f"all that was open has ended {time.monotonic() - began:.0f} s after the upgrade", flush=True)
    tale.go_on()
    tale.delete_all()


def test_a_cloud_that_is_stopped_and_upgraded_goes_on(cloud: UpgradedCloud) -> None:
    """All services of the old release end, then all of the new one start."""
    tale = Upgrade(cloud)
    tale.fill()
    tale.hold()
    before = cloud.seen(tale.quiet)
    cloud.stop_old("conductor", "scheduler", *HOSTS)
    tale.ask([case for case in cases.CASES if case.at is None and not case.needs_host])
    cloud.stop_old("api", "api-metadata")
    print(cloud.manage("db", "sync"))
    for name in ORDER:
        cloud.start_new(name)
    _end(tale, before)


def test_a_cloud_goes_on_while_it_is_upgraded_service_by_service(cloud: UpgradedCloud) -> None:
    """Users ask for something all the while: the old API, new conductors, old hosts, and then new hosts."""
    tale = Upgrade(cloud)
    tale.fill()
    tale.hold()
    before = cloud.seen(tale.quiet)
    asked = [case for case in cases.CASES if case.at is None and not case.needs_host]
    print(cloud.manage("db", "sync"))
    for name in ("conductor", "scheduler"):
        cloud.restart(name)
    tale.ask(asked[::3])
    cloud.restart(HOSTS[0])
    tale.ask(asked[1::3])
    for name in HOSTS[1:]:
        cloud.restart(name)
    cloud.start_new(DOOMED)
    tale.ask(asked[2::3])
    for name in ("api", "api-metadata"):
        cloud.restart(name)
    _end(tale, before)
