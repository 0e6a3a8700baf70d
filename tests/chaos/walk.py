"""A random walk of servers through all verbs while services die: one seed gives one plan for the same cloud."""
from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import requests

from tests.chaos.walked import Walked
from tests.support.client import Compute

SERVERS = 9
GONE = "gone"
STAYS_DEAD = "stays dead"      # in ``Walk.kills``, after the name of the host
_LIVE = ("ACTIVE", "PAUSED")
_QUIET = ("ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED")
_KEEPS = ("ACTIVE", "PAUSED", "SHUTOFF")


@dataclass
class Step:
    """A request that the walk makes, and what came of it: a status, or None when the API died over it."""

    server: str
    verb: str
    status: int | None = None
    text: str = ""
    request_id: str = ""

    def __str__(self) -> str:
        return f"{self.verb}({self.server[:8]}) {self.status} {self.text if self.status and self.status >= 400 else ''}".strip()


@dataclass(frozen=True)
class Verb:
    """From which statuses a verb is tried, and where it may end; no ``ends``: where it began."""

    since: tuple[str, ...]
    ends: tuple[str, ...]
    send: Callable[[Walk, Compute, str, random.Random], requests.Response]
    weight: int = 2


def _action(name: str, argument: Any = None) -> Callable[[Walk, Compute, str, random.Random], requests.Response]:
    def send(walk: Walk, client: Compute, server: str, rng: random.Random) -> requests.Response:
        given = argument(walk, server, rng) if callable(argument) else argument
        return client.request("POST", f"/servers/{server}/action", json={name: given})
    return send


def _delete(walk: Walk, client: Compute, server: str, rng: random.Random) -> requests.Response:
    return client.request("DELETE", f"/servers/{server}")


def _attach_volume(walk: Walk, client: Compute, server: str, rng: random.Random) -> requests.Response:
    free = sorted(v for v, status in walk.cloud.volumes().items() if status == "available" and v in walk.volumes)
    volume = rng.choice(free) if free else walk.add_volume()
    return client.request("POST", f"/servers/{server}/os-volume_attachments", json={"volumeAttachment": {"volumeId": volume}})


def _detach_volume(walk: Walk, client: Compute, server: str, rng: random.Random) -> requests.Response:
    path = f"/servers/{server}/os-volume_attachments"
    answer = client.request("GET", path)
    mine = [a["volumeId"] for a in answer.json().get("volumeAttachments", ()) if a["volumeId"] in walk.volumes]
    return client.request("DELETE", f"{path}/{rng.choice(mine)}") if mine else answer


def _attach_nic(walk: Walk, client: Compute, server: str, rng: random.Random) -> requests.Response:
    body: dict[str, Any] = {"net_id": walk.cloud.network}
    free = [port for port, has in walk.cloud.ports().items() if port in walk.ports and not has.server]
    if rng.random() < 0.5:
        body = {"port_id": rng.choice(free) if free else walk.add_port()}
    return client.request("POST", f"/servers/{server}/os-interface", json={"interfaceAttachment": body})


def _detach_nic(walk: Walk, client: Compute, server: str, rng: random.Random) -> requests.Response:
    answer = client.request("GET", f"/servers/{server}/os-interface")
    mine = [a["port_id"] for a in answer.json().get("interfaceAttachments", ())]
    return client.request("DELETE", f"/servers/{server}/os-interface/{rng.choice(mine)}") if mine else answer


def _image(walk: Walk, server: str, rng: random.Random) -> dict[str, Any]:
    return {"name": f"image-of-{server}", "metadata": {}}


def _backup(walk: Walk, server: str, rng: random.Random) -> dict[str, Any]:
    return {"name": f"image-of-{server}", "backup_type": "daily", "rotation": 1}


def _flavor(walk: Walk, server: str, rng: random.Random) -> dict[str, Any]:
    return {"flavorRef": walk.cloud.resizes[walk.before[server]["flavor"]["original_name"]]}


def _rebuild(walk: Walk, server: str, rng: random.Random) -> dict[str, Any]:
    return {"imageRef": walk.cloud.image}


def _rescue(walk: Walk, server: str, rng: random.Random) -> dict[str, Any]:
    return {} if walk.before[server]["image"] else {"rescue_image_ref": walk.cloud.rescue_image}


VERBS: dict[str, Verb] = {
    "stop": Verb(("ACTIVE", "ERROR"), ("SHUTOFF",), _action("os-stop")),
    "start": Verb(("SHUTOFF",), ("ACTIVE",), _action("os-start"), 6),
    "reboot": Verb(("ACTIVE",), (), _action("reboot", {"type": "SOFT"})),
    "hard reboot": Verb((*_QUIET, "ERROR"), ("ACTIVE",), _action("reboot", {"type": "HARD"})),
    "pause": Verb(("ACTIVE",), ("PAUSED",), _action("pause")),
    "unpause": Verb(("PAUSED",), ("ACTIVE",), _action("unpause"), 4),
    "suspend": Verb(("ACTIVE",), ("SUSPENDED",), _action("suspend")),
    "resume": Verb(("SUSPENDED",), ("ACTIVE",), _action("resume"), 6),
    "lock": Verb(("ACTIVE",), (), _action("lock"), 1),
    "unlock": Verb(("ACTIVE",), (), _action("unlock"), 1),
    "rebuild": Verb(("ACTIVE", "SHUTOFF", "ERROR"), ("ACTIVE", "SHUTOFF"), _action("rebuild", _rebuild)),
    "rescue": Verb(("ACTIVE", "SHUTOFF", "ERROR"), ("RESCUE",), _action("rescue", _rescue)),
    "unrescue": Verb(("RESCUE",), ("ACTIVE",), _action("unrescue"), 8),
    "shelve": Verb(_QUIET, ("SHELVED", "SHELVED_OFFLOADED"), _action("shelve"), 3),
    "offload": Verb(("SHELVED",), ("SHELVED_OFFLOADED",), _action("shelveOffload"), 4),
    "unshelve": Verb(("SHELVED", "SHELVED_OFFLOADED"), ("ACTIVE",), _action("unshelve"), 6),
    "resize": Verb(("ACTIVE", "SHUTOFF"), ("VERIFY_RESIZE",), _action("resize", _flavor), 4),
    "migrate": Verb(("ACTIVE", "SHUTOFF"), ("VERIFY_RESIZE",), _action("migrate", {"host": None}), 4),
    "confirm": Verb(("VERIFY_RESIZE",), ("ACTIVE", "SHUTOFF"), _action("confirmResize"), 4),
    "revert": Verb(("VERIFY_RESIZE",), ("ACTIVE", "SHUTOFF"), _action("revertResize"), 4),
    "live migrate": Verb(_LIVE, (), _action("os-migrateLive", {"host": None, "block_migration": "auto"}), 5),
    "evacuate": Verb(("ACTIVE", "SHUTOFF", "ERROR"), ("ACTIVE", "SHUTOFF"), _action("evacuate", {}), 0),
    "create image": Verb(_QUIET, (), _action("createImage", _image)),
    "create backup": Verb(_QUIET, (), _action("createBackup", _backup), 1),
    "attach volume": Verb((*_KEEPS, "VERIFY_RESIZE", "SHELVED_OFFLOADED"), (), _attach_volume, 3),
    "detach volume": Verb((*_KEEPS, "VERIFY_RESIZE", "SHELVED_OFFLOADED"), (), _detach_volume, 3),
    "attach nic": Verb(_KEEPS, (), _attach_nic),
    "detach nic": Verb(_KEEPS, (), _detach_nic),
    "delete": Verb((*_QUIET, "VERIFY_RESIZE", "SHELVED_OFFLOADED", "ERROR", "RESCUE"), ("SOFT_DELETED", GONE), _delete, 1),
    "restore": Verb(("SOFT_DELETED",), ("ACTIVE",), _action("restore"), 3),
    "force delete": Verb((*_QUIET, "VERIFY_RESIZE", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED", "ERROR", "RESCUE"), (GONE,),
                         _action("forceDelete"), 1),
}


@dataclass
class Walk:
    """``round`` makes requests and kills, and waits for nothing; ``before``: how the servers were then, ``steps``: what was
    asked, ``cut``: the servers whose guests have lost their power."""

    cloud: Walked
    rng: random.Random
    size: int = SERVERS
    before: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    volumes: set[str] = field(default_factory=set)
    ports: set[str] = field(default_factory=set)
    kills: list[str] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)
    ever_cut: set[str] = field(default_factory=set)

    def add_volume(self) -> str:
        """A volume of the user's own."""
        volume = self.cloud.new_volume()
        self.volumes.add(volume)
        return volume

    def add_port(self) -> str:
        """A port of the user's own."""
        port = self.cloud.new_port()
        self.ports.add(port)
        return port

    def round(self) -> None:
        """New servers in place of those that are gone, verbs for most of the others, and kills all the while."""
        rng, servers = self.rng, self.cloud.servers()
        self.before, self.steps, self.kills, self.cut = servers, [], [], set()
        plan: list[tuple[str, str]] = [("", "create")] * (self.size - len(servers))
        chosen = sorted(self.before)
        dead = rng.choice(sorted(self.cloud.daemons)) if rng.random() < 0.3 else None
        if dead is not None:
            self.kills.append(f"{dead} {STAYS_DEAD}")
            self.cut = self.cloud.hold_down(dead, rng)
            self.ever_cut |= self.cut
            plan += [(s, "evacuate") for s in chosen if self.before[s]["OS-EXT-SRV-ATTR:host"] == dead
                     and self.before[s]["status"] in VERBS["evacuate"].since]
        taken = {server for server, _verb in plan}
        for server in chosen:
            if server not in taken and rng.random() < 0.85:
                plan += [(server, verb) for verb in self._choose(self.before[server])]
        rng.shuffle(plan)
        self._go(plan)

    def _choose(self, server: dict[str, Any]) -> Sequence[str]:
        """One verb, sometimes two at once, of which the second may be refused."""
        fitting = [name for name, verb in VERBS.items() if server["status"] in verb.since]
        if not self.volumes & {v["id"] for v in server["os-extended-volumes:volumes_attached"]}:
            fitting = [name for name in fitting if name != "detach volume"]
        if not server["image"]:
            fitting = [name for name in fitting if name != "create backup"]
        if not fitting:
            return []
        return self.rng.choices(fitting, [VERBS[n].weight for n in fitting], k=2 if self.rng.random() < 0.2 else 1)

    def _go(self, plan: Sequence[tuple[str, str]]) -> None:
        kills = self._kills(len(plan))
        with ThreadPoolExecutor(len(plan) + 1) as pool:
            for number, (server, verb) in enumerate(plan):
                pool.submit(self._request, Step(server, verb), random.Random(self.rng.random()))
                time.sleep(self.rng.uniform(0, 0.5))
                for name, seconds in kills.get(number, ()):
                    self.kills.append(self.cloud.kill(name, seconds))
            for name, seconds in kills.get(-1, ()):
                self.kills.append(self.cloud.kill(name, seconds))
                time.sleep(self.rng.uniform(0, 2))
            self.cloud.revive()     # a request may wait for a host's answer

    def _kills(self, steps: int) -> dict[int, list[tuple[str, float]]]:
        """After which request (-1: after all of them) who is killed, and for how many seconds."""
        found: dict[int, list[tuple[str, float]]] = {}
        for _ in range(self.rng.randint(1, 4)):
            victim = "rabbit" if self.rng.random() < 0.05 else self.rng.choice(self.cloud.victims)
            when = self.rng.randrange(steps) if steps and self.rng.random() < 0.6 else -1
            found.setdefault(when, []).append((victim, self.rng.choice((0.0, 0.0, 1.0, 3.0))))
        return found

    def _request(self, step: Step, rng: random.Random) -> None:
        client = self.cloud.walker()
        self.steps.append(step)
        try:
            answer = VERBS[step.verb].send(self, client, step.server, rng) if step.server else self._create(client, rng)
        except (requests.RequestException, AssertionError) as error:    # the API is killed: it may have begun, or not
            step.text = f"{type(error).__name__}: {error}"
            return
        step.request_id = answer.headers.get("x-openstack-request-id", "")
        step.text, step.status = answer.text[:300], answer.status_code
        if step.verb == "create" and answer.status_code == 202:
            step.server = answer.json()["server"]["id"]

    def _create(self, client: Compute, rng: random.Random) -> requests.Response:
        """From an image or a volume made of it, with one nic or two, of which one may be the user's port."""
        networks = [{"uuid": self.cloud.network}]
        if rng.random() < 0.3:
            networks.append({"port": self.add_port()} if rng.random() < 0.5 else {"uuid": self.cloud.network})
        body: dict[str, Any] = {"name": "walk", "flavorRef": self.cloud.small, "networks": networks, **self.cloud.more}
        if rng.random() < 0.25:
            body["block_device_mapping_v2"] = [{
                "boot_index": 0, "uuid": self.cloud.image, "source_type": "image", "destination_type": "volume",
                "volume_size": 1, "delete_on_termination": True}]
        else:
            body["imageRef"] = self.cloud.image
        return client.request("POST", "/servers", json={"server": body})
