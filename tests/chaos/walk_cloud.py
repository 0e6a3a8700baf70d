"""Three fake hosts, each a compute daemon of its own, with Neutron's driver on a small Neutron of this process."""
from __future__ import annotations

import json
import os
import pathlib
import random
from typing import Any

from nova_lite.db.core import make_engine
from tests.chaos.walked import COMMON, PROJECT, Port, Walked
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron

HOSTS = ("host-1", "host-2", "host-3")
FAILING_WALKS = float(os.environ.get("NOVA_LITE_WALK_FAILING", "0"))
"""The share of walks on whose hosts one operation of ten fails, beside all the deaths."""
FAILING = ("spawn", "reboot", "power_on", "power_off", "rescue", "unrescue", "connect_volume", "attach_volume", "detach_volume",
           "attach_interface", "detach_interface", "check_resize", "set_aside", "offer_disks", "receive_guest", "finish_move",
           "snapshot", "pause", "unpause", "suspend", "resume", "check_live_migration", "pre_live_migration", "live_migration")


class WalkCloud(Walked):
    """``nova-lite-compute`` runs three times, so that one host can die alone."""

    daemons = {host: host for host in HOSTS}

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
            conductor__lease_seconds=6, conductor__sweep_interval=1, compute__report_interval=2,
            compute__service_down_time=20, compute__shelved_offload_time=0 if self.offloads_at_once else -1,
            compute__heal_instance_info_cache_interval=3, fake__fail=failing, **COMMON, **options)
        with self.config.open("a") as file:
            file.write(CREDENTIALS.format(url=neutron.url) + "timeout = 10\n")
        del self.processes["compute"]
        for host in HOSTS:
            self.processes[host] = self.another("compute", host, host=host)
        self.begin()

    def start(self, hosts: int = len(HOSTS)) -> WalkCloud:
        super().start(hosts)
        self.network = self.neutron.add_network(project_id=PROJECT)
        self.image = self.add_image()
        self.rescue_image = self.add_image(name="rescue", hw_rescue_device="disk", hw_rescue_bus="virtio")
        self.small = self.walker().flavor("walk.small")
        large = self.walker().ok("POST", "/flavors", json={"flavor": {
            "name": "walk.large", "ram": 128, "vcpus": 2, "disk": 2}})["flavor"]["id"]
        self.resizes = {"walk.small": large, "walk.large": self.small}
        return self

    def guests(self) -> dict[str, dict[str, int]]:
        """Read as the driver writes it."""
        found = {}
        for host in HOSTS:
            path = self.directory / f"guests.json.{host}"
            known: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
            found[host] = {uuid: guest["power_state"] for uuid, guest in known.items()}
        return found

    def ports(self) -> dict[str, Port]:
        """Neutron's."""
        return {p["id"]: Port(p["device_id"], p["binding:host_id"] or None, p.get("waiting"),
                              (p.get("binding:profile") or {}).get("migrating_to"))
                for p in list(self.neutron.ports.values())}

    def new_port(self) -> str:
        """A port of the user's own."""
        return str(self.neutron.add_port(self.network, project_id=PROJECT))
