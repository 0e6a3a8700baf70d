"""Fifty hosts, and what befalls them all at once: no broker, no database, no conductor, no power, no way to half of them.

The fleet is whole again by itself, and nothing is lost. ``benchmarks.fleet`` measures the same with more hosts.
"""
from __future__ import annotations

import contextlib
import json
import pathlib
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import sqlalchemy as sa

from nova_lite.db import models
from nova_lite.db.core import make_engine
from tests.support.client import Compute
from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import wait_for
from tests.support.tcp_proxy import TcpProxy

HALF = 25               # hosts of one process
DOWN = 20               # [compute] service_down_time: after an outage some hosts report several seconds after others
AWAY = 24.0             # seconds of each storm: hosts that are silent as long are down
UP, WHOLE = 90.0, 180.0     # seconds until all hosts have reported, and until nothing is under way; a noisy machine is slow
DEATHS = re.compile("stopped reporting|No valid host")

pytestmark = pytest.mark.timeout(900)


class Fleet(Services):
    """``left`` and ``right`` are processes with half of the hosts each. ``right`` reaches the broker by ``way``."""

    def __init__(self, directory: pathlib.Path, rabbit: RabbitMQ, maria: MariaDB) -> None:
        self.rabbit, self.maria, self.way = rabbit, maria, TcpProxy(rabbit.port)
        database_url = maria.new_database()
        self.engine = make_engine(database_url)
        super().__init__(
            directory, rabbit.url, database_url, fake__hosts=HALF, fake__delay=0.3, fake__state_file=directory / "guests.json",
            conductor__lease_seconds=6, conductor__sweep_interval=1, conductor__max_attempts=20, compute__report_interval=2,
            compute__service_down_time=DOWN, compute__sync_power_state_interval=10,
            oslo_messaging_rabbit__kombu_reconnect_delay=0.5)
        del self.processes["compute"]
        for name, url in (("left", rabbit.url), ("right", rabbit.url.replace(str(rabbit.port), str(self.way.port)))):
            self.processes[name] = self.another("compute", name, host=name, transport_url=url)

    def end(self) -> None:
        """Nobody waits for anything any more."""
        for process in self.processes.values():
            if process.alive():
                process.kill()
        self.way.close()
        self.engine.dispose()

    # storms -------------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def without_broker(self) -> Iterator[None]:
        self.rabbit.stop()
        try:
            yield
        finally:
            self.rabbit.start()

    @contextlib.contextmanager
    def without_database(self) -> Iterator[None]:
        self.maria.close()
        try:
            yield
        finally:
            self.maria.start()

    @contextlib.contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """These processes are killed."""
        for name in names:
            self.processes[name].kill(signal.SIGKILL)
        try:
            yield
        finally:
            for name in names:
                self.processes[name].start()

    @contextlib.contextmanager
    def parted(self) -> Iterator[None]:
        """Half of the hosts and the broker do not hear each other."""
        self.way.hold()
        try:
            yield
        finally:
            self.way.let_go()

    # what there is --------------------------------------------------------------------------------------------------------
    def hosts_up(self) -> set[str]:
        """The hosts that count as alive; none while the API cannot tell."""
        with contextlib.suppress(requests.RequestException):
            answer = self.client().request("GET", "/os-services?binary=nova-compute")
            if answer.status_code == 200:
                return {one["host"] for one in answer.json()["services"] if one["state"] == "up"}
        return set()

    def under_way(self) -> list[str]:
        """Actions that have not ended."""
        table = models.instance_actions.c
        with self.engine.connect() as conn:
            return [str(row) for row in conn.execute(sa.select(table.id, table.action, table.state, table.host).where(
                table.state.in_(("pending", "running"))))]

    def guests(self) -> Counter[tuple[str, str]]:
        """(host, server) of all guests."""
        return Counter((path.name.removeprefix("guests.json."), server) for path in self.directory.glob("guests.json.*")
                       for server in json.loads(path.read_text()))

    def claims(self) -> Counter[tuple[str, str]]:
        """(host, server) of all that hold room, after a look at the sums of the hosts."""
        held, nodes = models.allocations.c, models.compute_nodes.c
        with self.engine.connect() as conn:
            found = Counter(tuple(row) for row in conn.execute(sa.select(nodes.host, held.instance_uuid).join(
                models.compute_nodes, nodes.id == held.compute_node_id)))
            used = {row.host: row.instances_used for row in conn.execute(sa.select(nodes.host, nodes.instances_used))}
        assert {host: count for host, count in used.items() if count} == Counter(host for host, _ in found.elements())
        return found


@pytest.fixture(scope="module")
def fleet(engines: tuple[RabbitMQ, MariaDB], tmp_path_factory: Any) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"), *engines)
    try:
        made.start(2 * HALF)
        made.add_image()
        yield made
    finally:
        made.end()


class Work:
    """What users ask for: ``wanted`` is the status of each server in the end, None for one that is deleted."""

    def __init__(self, fleet: Fleet) -> None:
        self.client = fleet.client()
        self.flavor, self.image = self.client.flavor(), self.client.image()
        self.wanted: dict[str, str | None] = {}

    def build(self, count: int) -> None:
        """New servers, several by each request."""
        answer = self._ask("POST", "/servers", {"server": {
            "name": "storm", "flavorRef": self.flavor, "imageRef": self.image, "networks": "none", "min_count": count,
            "return_reservation_id": True}})
        if answer is not None:
            found = self.client.ok("GET", f"/servers?reservation_id={answer['reservation_id']}")["servers"]
            self.wanted |= {server["id"]: "ACTIVE" for server in found}

    def change(self, servers: list[str]) -> None:
        """Every third one is stopped, every third one is deleted."""
        for number, server in enumerate(servers):
            if number % 3 == 0 and self._ask("POST", f"/servers/{server}/action", {"os-stop": None}) is not None:
                self.wanted[server] = "SHUTOFF"
            if number % 3 == 1 and self._ask("DELETE", f"/servers/{server}") is not None:
                self.wanted[server] = None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """None: the cloud cannot take it at this moment, and says so."""
        answer = self.client.request(method, path, **({"json": body} if body else {}))
        assert answer.status_code in (202, 204, 503), answer.text
        return None if answer.status_code == 503 else (answer.json() if answer.content else {})


STORMS: dict[str, tuple[Callable[[Fleet], contextlib.AbstractContextManager[None]], set[str]]] = {
    "no broker": (Fleet.without_broker, set()), "no database": (Fleet.without_database, set()),
    "no conductor": (lambda fleet: fleet.without("conductor"), set()),
    "no power": (lambda fleet: fleet.without("left", "right"), {"left", "right"}),
    "no way to half of the hosts": (Fleet.parted, {"right"})}
"""How each begins and ends, and the processes whose hosts are dead meanwhile."""


@pytest.mark.parametrize("name", STORMS)
def test_the_fleet_is_whole_again(fleet: Fleet, name: str) -> None:
    storm, dead = STORMS[name]
    work = Work(fleet)
    work.build(15)
    wait_for("the first servers", lambda: not fleet.under_way(), WHOLE, 0.3)
    first = list(work.wanted)
    work.build(10)
    work.change(first[:6])
    # nobody hears the hosts while broker, database or conductors are away
    heard = {host for host in fleet.hosts_up() if host.partition("-")[0] not in dead} if dead else set()
    lost: set[str] = set()
    with storm(fleet):
        if name != "no database":
            work.build(10)
            work.change(first[6:12])
        ends = time.monotonic() + AWAY
        while time.monotonic() < ends:
            lost |= heard - fleet.hosts_up()
            time.sleep(0.5)
    began = time.monotonic()
    wait_for("all hosts to report", lambda: len(fleet.hosts_up()) == 2 * HALF, UP, 0.5)
    up = time.monotonic() - began
    work.build(5)
    work.change(first[12:])
    wait_for("an end of all actions", lambda: not fleet.under_way(), WHOLE, 0.3)
    print(f"{name}: all hosts up after {up:.1f} s, nothing under way after {time.monotonic() - began:.1f} s", flush=True)
    assert lost == set()
    _check(fleet, work, bool(dead))


def _check(fleet: Fleet, work: Work, has_deaths: bool) -> None:
    client = fleet.client()
    found = {server["id"]: server for server in client.servers()}
    are = {uuid: found[uuid]["status"] if uuid in found else None for uuid in work.wanted}
    wrong = {uuid: (status, are[uuid], _why(client, uuid)) for uuid, status in work.wanted.items() if are[uuid] != status}
    # what hosts that died were asked for may have failed, with the reason
    assert not {uuid: what for uuid, what in wrong.items() if not (has_deaths and DEATHS.search(what[-1]))}
    at_hosts = Counter((server["OS-EXT-SRV-ATTR:host"], uuid) for uuid, server in found.items()
                       if server["OS-EXT-SRV-ATTR:host"])
    assert fleet.claims() == at_hosts
    wait_for("each guest to be where its server is, once", lambda: fleet.guests() == at_hosts, 60, 0.5)


def _why(client: Compute, server: str) -> str:
    """What a server and its newest action say of its end."""
    fault = client.server(server).get("fault", {}).get("message", "")
    path = f"/servers/{server}/os-instance-actions"
    newest = client.ok("GET", path)["instanceActions"][0]
    events = client.ok("GET", f"{path}/{newest['request_id']}")["instanceAction"]["events"]
    return " ".join([fault, *(event["details"] or "" for event in events)])
