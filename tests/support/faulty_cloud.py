"""Five services between proxies and the real neighbours, and what must be true whatever the proxies did to them."""
from __future__ import annotations

import contextlib
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests
import sqlalchemy as sa

from nova_lite.db import models
from tests.support.cloud import Services
from tests.support.fault_proxy import Proxies
from tests.support.neighbours import Neighbours
from tests.support.process import wait_for

TIMEOUT = 10        # [service_user] timeout: how long a neighbour may hang
AT_ONCE = 5         # servers that are asked for at the same time while all is well
SETTLED = 300.0     # seconds until whatever was asked for has come to an end


class FaultyCloud:
    """``proxies`` make neighbours fail; servers are made by the user demo."""

    def __init__(self, neighbours: Neighbours, directory: pathlib.Path, **options: object) -> None:
        self.neighbours = neighbours
        self.proxies = Proxies({name: neighbours.url(name) for name in ("keystone", "glance", "neutron", "cinder")})
        auth_url = f"{self.proxies.keystone.url}/v3"
        self.services: Services = neighbours.services(
            directory, service_user__auth_url=auth_url, service_user__timeout=TIMEOUT, keystone_authtoken__auth_url=auth_url,
            # who asks is known while Keystone is down, however long the tests before it took
            keystone_authtoken__token_cache_time=7200,
            # the calls of a build are counted, and these would be among them
            compute__heal_instance_info_cache_interval=0,
            service_user__retries=1, network__vif_plugging_timeout=0, fake__fetch_images=True, fake__hosts=2, fake__delay=0.3,
            fake__state_file=directory / "guests", **options)
        self.made: list[str] = []
        self._ready: dict[bool, list[str]] = {False: [], True: []}
        self._lock = threading.Lock()

    def start(self) -> FaultyCloud:
        self.services.start(hosts=2)
        self.admin = self.services.client(self.neighbours.token("admin"))
        self.user = self.services.client(self.neighbours.token("demo"))
        self.flavor, self.image, self.network = self.admin.flavor(), self.neighbours.image_id(), self.neighbours.network_id()
        self.volume_type = "dataless"
        return self

    def close(self) -> None:
        self.proxies.heal()
        try:
            self.delete(list(self.made))
            self.services.stop()
        finally:
            self.proxies.close()

    def ready(self, more: Mapping[str, Any] | None = None) -> list[str]:
        """The servers that are ACTIVE and wait to be used; those with volumes are apart, as ``more`` of :meth:`boot` says."""
        return self._ready["block_device_mapping_v2" in (more or {})]

    def spare(self) -> set[str]:
        """All that are ACTIVE, with and without volumes."""
        return {*self._ready[False], *self._ready[True]}

    # what users do --------------------------------------------------------------------------------------------------
    def boot(self, **more: Any) -> requests.Response:
        """POST /servers of one server with one nic."""
        body = {"name": f"fault-{len(self.made)}", "flavorRef": self.flavor, "imageRef": self.image,
                "networks": [{"uuid": self.network}], **more}
        body = {k: v for k, v in body.items() if v is not None}
        answer = self.user.request("POST", "/servers", json={"server": body})
        if answer.status_code == 202:
            with self._lock:
                self.made.append(answer.json()["server"]["id"])
        return answer

    def active(self, count: int = 1, **more: Any) -> list[str]:
        """Servers that are ACTIVE."""
        def one(_number: int) -> str:
            answer = self.boot(**more)
            assert answer.status_code == 202, answer.text
            server = str(answer.json()["server"]["id"])
            self.user.wait(server, "ACTIVE", SETTLED)
            return server
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(one, range(count)))

    def state(self, server: str) -> dict[str, Any] | None:
        """The server when nothing works on it any more ({}: something does), None when it is gone."""
        answer = self.user.request("GET", f"/servers/{server}")
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["server"]
        return found if _idle(found) else {}

    def settled(self, servers: list[str]) -> dict[str, dict[str, Any] | None]:
        """Their states, when all have one. Lists say whether it is time to ask for each."""
        wanted, states = set(servers), dict[str, dict[str, Any] | None]()

        def all_of_them() -> bool:
            if any(not _idle(found) for found in self.user.servers() if found["id"] in wanted):
                return False
            states.update({server: self.state(server) for server in servers if not states.get(server, {})})
            return {} not in states.values()
        wait_for("everything to come to an end", all_of_them, SETTLED, 0.5)
        return states

    def delete(self, servers: list[str]) -> None:
        """Delete them, as often as it takes, until they are gone."""
        def gone() -> bool:
            left = [found for found in self.user.servers() if found["id"] in servers]
            for server in left:
                if server["OS-EXT-STS:task_state"] != "deleting":
                    self.user.request("DELETE", f"/servers/{server['id']}")
            return not left and all(self.state(server) is None for server in servers)
        wait_for("the servers to be gone", gone, SETTLED, 1)
        self.made = [s for s in self.made if s not in servers]

    # what must be so ------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def answering(self, seconds: float) -> Iterator[None]:
        """The API answers a list within ``seconds`` all the while."""
        slowest, done = [0.0], threading.Event()
        other = self.services.client(self.user.token)

        def ask() -> None:
            while not done.wait(0.3):
                began = time.monotonic()
                answer = other.request("GET", "/servers/detail?limit=5")
                slowest[0] = max(slowest[0], time.monotonic() - began)
                if answer.status_code != 200:
                    slowest[0] = 1000.0
        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert slowest[0] < seconds

    def ports(self) -> dict[str, list[str]]:
        """server -> its ports in Neutron, of all the servers that this test has made."""
        found: dict[str, list[str]] = {}
        made = self._all_made()
        for port in self.neighbours.call("GET", "neutron", "/v2.0/ports?fields=id&fields=device_id", "admin")["ports"]:
            if port["device_id"] in made:
                found.setdefault(port["device_id"], []).append(port["id"])
        return found

    def attachments(self) -> dict[str, list[str]]:
        """server -> its attachments in Cinder."""
        answer = self.neighbours.call("GET", "cinder", "/attachments/detail?all_tenants=1", "admin",
                                      headers={"OpenStack-API-Version": "volume 3.44"})
        found: dict[str, list[str]] = {}
        made = self._all_made()
        for one in answer["attachments"]:
            if one["instance"] in made:
                found.setdefault(one["instance"], []).append(one["id"])
        return found

    def volumes(self) -> dict[str, list[str]]:
        """server -> the volumes in Cinder that were made for it."""
        answer = self.neighbours.call("GET", "cinder", "/volumes/detail?all_tenants=1", "admin")
        found: dict[str, list[str]] = {}
        made = self._all_made()
        for one in answer["volumes"]:
            if one["metadata"].get("nova_lite_server") in made:
                found.setdefault(one["metadata"]["nova_lite_server"], []).append(one["id"])
        return found

    def _all_made(self) -> set[str]:
        with self._database().connect() as conn:
            return set(conn.execute(sa.select(models.instances.c.uuid)).scalars())

    def _database(self) -> sa.Engine:
        text = self.services.config.read_text()
        url = next(line.partition(" = ")[2] for line in text.splitlines() if line.startswith("connection = "))
        return sa.create_engine(url, poolclass=sa.pool.NullPool)

    def living(self) -> set[str]:
        """Servers that are there."""
        with self._database().connect() as conn:
            return set(conn.execute(sa.select(models.instances.c.uuid).where(models.instances.c.deleted == 0)).scalars())

    def claims(self) -> list[str]:
        """Servers that hold room on a host."""
        with self._database().connect() as conn:
            return sorted(conn.execute(sa.select(models.allocations.c.instance_uuid)).scalars())

    def consistent(self, timeout: float = 180) -> None:
        """Each server has exactly one port and one claim, and nobody has anything who is not there any more."""
        def check() -> bool:
            living, ports = self.living(), self.ports()
            problems = {"claims": sorted(set(self.claims()) ^ living),
                        "ports": {s: p for s, p in ports.items() if s not in living},
                        "servers": {s: ports.get(s, []) for s in living if len(ports.get(s, [])) != 1},
                        "attachments": {s: a for s, a in self.attachments().items() if s not in living},
                        "volumes": {s: v for s, v in self.volumes().items() if s not in living},
                        "twice": len(self.claims()) - len(set(self.claims()))}
            self.problems = {k: v for k, v in problems.items() if v}
            return not self.problems
        try:
            wait_for("nothing to be left behind", check, timeout, 2)
        except AssertionError:
            raise AssertionError(f"left behind after {timeout} s: {self.problems}") from None

    def goes_on(self, **more: Any) -> None:
        """A new server gets ACTIVE, soon after the neighbours are back."""
        def builds() -> bool:
            answer = self.boot(**more)
            if answer.status_code != 202:
                return False
            server = answer.json()["server"]["id"]
            good = (self.settled([server])[server] or {}).get("status") == "ACTIVE"
            if good:
                self.ready(more).append(server)
            else:
                self.delete([server])
            return good
        wait_for("builds to go on", builds, 90, 0.5)


def _idle(server: Mapping[str, Any]) -> bool:
    """Whether nothing works on it any more."""
    return server["OS-EXT-STS:task_state"] is None and server["status"] in ("ACTIVE", "ERROR")


def storm(cloud: FaultyCloud, begin: Callable[[], None], end: Callable[[], None], count: int = 20,
          **more: Any) -> tuple[list[requests.Response], dict[str, dict[str, Any] | None]]:
    """``count`` builds and ``count`` deletes; after half of them were asked for, the neighbours ``begin`` to fail; when all
    came to an end, they ``end``. The answers to the requests, and how the servers ended."""
    ready = cloud.ready(more)
    ready += cloud.active(count - len(ready), **more) if len(ready) < count else []
    victims = ready[:count]
    del ready[:count]
    answers: list[requests.Response] = []

    def one(number: int) -> None:
        answers.append(cloud.boot(**more))
        answers.append(cloud.user.request("DELETE", f"/servers/{victims[number]}"))

    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(one, range(count // 2)))
            begin()
            list(pool.map(one, range(count // 2, count)))
        new = [a.json()["server"]["id"] for a in answers if a.status_code == 202 and a.content]
        ended = cloud.settled([*new, *victims])
    finally:
        end()
    ready += [s for s in new if (ended[s] or {}).get("status") == "ACTIVE"]
    return answers, ended
