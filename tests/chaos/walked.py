"""The cloud that is walked, whatever its hypervisor is: its deaths, and what there is in it."""
from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import requests
import sqlalchemy as sa

from nova_lite import conf as conf_module
from nova_lite.context import admin_context
from nova_lite.db import models
from nova_lite.objects.volume import Attachment
from nova_lite.volume import base as volume_base
from tests.support.client import Compute
from tests.support.cloud import NAMES, Services
from tests.support.engines import RabbitMQ
from tests.support.process import wait_for

PROJECT = "demo"
VERSION = "2.96"
COMMON: dict[str, object] = {
    "conductor__max_attempts": 20, "compute__reclaim_instance_interval": 3600, "compute__sync_power_state_interval": 10,
    "oslo_messaging_rabbit__kombu_reconnect_delay": 0.5}


class Port(NamedTuple):
    """``waiting``: the bindings that were made and not activated. ``leaves_to``: the host that its profile says."""

    server: str | None
    host: str | None
    waiting: object = None
    leaves_to: str | None = None


class Walked(Services):
    """``daemons``: the process of each host, which can die alone. Volumes and images are files. Whoever inherits sets what is
    declared here."""

    daemons: Mapping[str, str]
    rabbit: RabbitMQ
    engine: sa.Engine
    network: str
    image: str
    rescue_image: str
    small: str                  # the flavor of new servers
    resizes: Mapping[str, str]  # the name of a flavor -> the id of the one that a server of it is resized to
    fails = False               # whether operations of the hypervisor fail, beside all the deaths
    more: Mapping[str, Any] = {}        # what a new server is asked for besides

    def begin(self) -> None:
        """What a test needs of it before its processes start."""
        self.held_down: set[str] = set()
        self.victims = [name for name in NAMES if name != "compute"] + list(self.daemons.values())

    def walker(self) -> Compute:
        """A client with a session of its own: one for each thread."""
        return self.client(f"admin:{PROJECT}", VERSION)

    def end(self) -> None:
        """Nobody waits for anything any more."""
        for process in self.processes.values():
            if process.alive():
                process.kill()
        self.engine.dispose()

    # hosts and services -------------------------------------------------------------------------------------------------
    def hold_down(self, host: str, rng: random.Random) -> set[str]:
        """The host dies and stays dead, and its fence says so. The servers whose guests died with it."""
        self.processes[self.daemons[host]].kill()
        self.held_down.add(host)
        self.force_down(host, True)
        return set()

    def let_up(self) -> None:
        """All hosts come back."""
        for host in sorted(self.held_down):
            self.force_down(host, False)
            self.processes[self.daemons[host]].start()
        self.held_down.clear()

    def force_down(self, host: str, down: bool) -> None:
        """What an admin says of it."""
        client = self.walker()

        def done() -> bool:
            with contextlib.suppress(requests.RequestException):
                services = client.request("GET", f"/os-services?host={host}")
                if services.status_code == 200:
                    found = services.json()["services"][0]
                    return client.request("PUT", f"/os-services/{found['id']}", json={"forced_down": down}).status_code == 200
            self.revive()
            return False
        wait_for(f"forced_down of {host}", done, 180, 0.3)

    def revive(self) -> None:
        """Start what has ended, but for the hosts that shall be dead."""
        for name, process in self.processes.items():
            if not self.is_held(name) and not process.alive():
                process.start()

    def kill(self, name: str, seconds: float) -> str:
        """SIGKILL, and a start some time later; the broker ends in good order, as its node would lose its tables else. Answers
        who it was."""
        if name == "rabbit":
            self.rabbit.restart()
        elif not self.is_held(name):
            self.processes[name].kill()
            time.sleep(seconds)
            self.processes[name].start()
        return name

    def is_held(self, process: str) -> bool:
        """Whether its host shall be dead."""
        return process in {self.daemons[host] for host in self.held_down}

    # what there is ------------------------------------------------------------------------------------------------------
    def servers(self) -> dict[str, dict[str, Any]]:
        """All as the API shows them, those too that no list has: the ones that are softly deleted."""
        table, client = models.instances.c, self.walker()
        with self.engine.connect() as connection:
            uuids = connection.execute(sa.select(table.uuid).where(table.deleted == 0)).scalars().all()
        found = {}
        for uuid in uuids:
            answer = client.request("GET", f"/servers/{uuid}")
            if answer.status_code != 404:       # gone at this moment
                assert answer.status_code == 200, answer.text
                found[uuid] = answer.json()["server"]
        return found

    def guests(self) -> dict[str, dict[str, int]]:
        """host -> guest -> its power state; what was set aside has ``_resize`` after its uuid."""
        raise NotImplementedError

    def ports(self) -> dict[str, Port]:
        """All ports by their ids."""
        raise NotImplementedError

    def new_port(self) -> str:
        """One of the user's own."""
        raise NotImplementedError

    def attachments(self) -> list[Attachment]:
        """All that the volumes know of."""
        return list(self._volumes().all_attachments(admin_context()))

    def volumes(self) -> dict[str, str]:
        """id -> status."""
        return {v.id: v.status for v in self._volumes().list_all(admin_context())}

    def with_snapshots(self) -> set[str]:
        """The volumes that cannot be deleted, since there are snapshots of them."""
        return {s.volume_id for s in self._volumes().list_snapshots(admin_context())}

    def new_volume(self) -> str:
        """An empty one of the user's own."""
        return str(self.walker().ok("POST", "/os-volumes", "2.1", json={"volume": {"size": 1}})["volume"]["id"])

    def _volumes(self) -> Any:
        return volume_base.load(conf_module.load([], config_files=[str(self.config)]))
