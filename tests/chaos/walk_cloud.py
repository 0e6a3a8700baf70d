"""Three fake hosts, each a compute daemon of its own, with Neutron's driver on a small Neutron of this process."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import time
from typing import Any

import requests
import sqlalchemy as sa

from nova_lite import conf as conf_module
from nova_lite.context import admin_context
from nova_lite.db import models
from nova_lite.db.core import make_engine
from nova_lite.objects.volume import Attachment
from nova_lite.volume import base as volume_base
from tests.support.client import Compute
from tests.support.cloud import NAMES, Services
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron
from tests.support.process import wait_for

HOSTS = ("host-1", "host-2", "host-3")
PROJECT = "demo"
FAILING_WALKS = float(os.environ.get("NOVA_LITE_WALK_FAILING", "0"))
"""The share of walks on whose hosts one operation of ten fails, beside all the deaths."""
FAILING = ("spawn", "reboot", "power_on", "power_off", "rescue", "unrescue", "connect_volume", "attach_volume", "detach_volume",
           "attach_interface", "detach_interface", "check_resize", "set_aside", "offer_disks", "receive_guest", "finish_move",
           "snapshot", "pause", "unpause", "suspend", "resume", "check_live_migration", "pre_live_migration", "live_migration")
VERSION = "2.96"


class WalkCloud(Services):
    """``nova-lite-compute`` runs three times, so that one host can die alone. Volumes and images are files."""

    def __init__(self, directory: pathlib.Path, rabbit: RabbitMQ, maria: MariaDB, neutron: FakeNeutron, rng: random.Random,
                 **options: object) -> None:
        self.rabbit, self.neutron, database_url = rabbit, neutron, maria.new_database()
        self.engine = make_engine(database_url)
        self.offloads_at_once = rng.random() < 0.5      # else a shelved server stays on its host
        self.fails = rng.random() < FAILING_WALKS
        failing = ",".join(f"{name}:0.1" for name in FAILING) if self.fails else ""
        super().__init__(
            directory, rabbit.url, database_url, network__driver="neutron", network__vif_plugging_timeout=0,
            image__local_path=directory / "images", volume__local_path=directory / "volumes", fake__fetch_images=True,
            fake__delay=0.2, fake__state_file=directory / "guests.json", fake__vcpus=8, compute__cpu_allocation_ratio=1.0,
            conductor__lease_seconds=6, conductor__sweep_interval=1, conductor__max_attempts=20, compute__report_interval=2,
            compute__service_down_time=20, compute__sync_power_state_interval=10,
            compute__shelved_offload_time=0 if self.offloads_at_once else -1,
            compute__reclaim_instance_interval=3600, fake__fail=failing,
            oslo_messaging_rabbit__kombu_reconnect_delay=0.5, **options)
        with self.config.open("a") as file:
            file.write(CREDENTIALS.format(url=neutron.url) + "timeout = 10\n")
        del self.processes["compute"]
        for host in HOSTS:
            self.processes[host] = self.another("compute", host, host=host)
        self.held_down: set[str] = set()
        self.victims = [name for name in NAMES if name != "compute"] + list(HOSTS)

    def start(self, hosts: int = len(HOSTS)) -> WalkCloud:
        super().start(hosts)
        self.network = self.neutron.add_network(project_id=PROJECT)
        self.image = self.add_image()
        self.rescue_image = self.add_image(name="rescue", hw_rescue_device="disk", hw_rescue_bus="virtio")
        self.small = self.walker().flavor("walk.small")
        self.large = self.walker().ok("POST", "/flavors", json={"flavor": {
            "name": "walk.large", "ram": 128, "vcpus": 2, "disk": 2}})["flavor"]["id"]
        return self

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
    def hold_down(self, host: str) -> None:
        """The host dies and stays dead, and its fence says so."""
        self.processes[host].kill()
        self.held_down.add(host)
        self._force_down(host, True)

    def let_up(self) -> None:
        """All hosts come back."""
        for host in sorted(self.held_down):
            self._force_down(host, False)
            self.processes[host].start()
        self.held_down.clear()

    def _force_down(self, host: str, down: bool) -> None:
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
            if name not in self.held_down and not process.alive():
                process.start()

    def kill(self, name: str, seconds: float) -> None:
        """SIGKILL, and a start some time later; the broker ends in good order, as its node would lose its tables else."""
        if name == "rabbit":
            self.rabbit.restart()
        elif name not in self.held_down:
            self.processes[name].kill()
            time.sleep(seconds)
            self.processes[name].start()

    # what there is ------------------------------------------------------------------------------------------------------
    def servers(self) -> dict[str, dict[str, Any]]:
        """All as the API shows them, those too that no list has: the ones that are softly deleted."""
        table, client = models.instances.c, self.walker()
        with self.engine.connect() as connection:
            uuids = connection.execute(sa.select(table.uuid).where(table.deleted == 0)).scalars().all()
        return {uuid: client.server(uuid) for uuid in uuids}

    def guests(self) -> dict[str, dict[str, int]]:
        """host -> guest -> its power state; what was set aside has ``_resize`` after its uuid. Read as the driver writes it."""
        found = {}
        for host in HOSTS:
            path = self.directory / f"guests.json.{host}"
            known: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
            found[host] = {uuid: guest["power_state"] for uuid, guest in known.items()}
        return found

    def attachments(self) -> list[Attachment]:
        """All that the volumes know of."""
        volumes = volume_base.load(conf_module.load([], config_files=[str(self.config)]))
        return list(volumes.all_attachments(admin_context()))  # type: ignore[attr-defined]

    def volumes(self) -> dict[str, str]:
        """id -> status."""
        volumes = volume_base.load(conf_module.load([], config_files=[str(self.config)]))
        return {v.id: v.status for v in volumes.list_all(admin_context())}

    def with_snapshots(self) -> set[str]:
        """The volumes that cannot be deleted, since there are snapshots of them."""
        volumes = volume_base.load(conf_module.load([], config_files=[str(self.config)]))
        return {s.volume_id for s in volumes.list_snapshots(admin_context())}

    def new_volume(self) -> str:
        """An empty one of the user's own."""
        return str(self.walker().ok("POST", "/os-volumes", "2.1", json={"volume": {"size": 1}})["volume"]["id"])
