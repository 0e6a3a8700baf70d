"""Two libvirt hosts with QEMU's guests, for the walk: they lose their power, and their guests have files to be kept."""
from __future__ import annotations

import base64
import contextlib
import hashlib
import pathlib
import random
import shutil
import subprocess
import time
from typing import Any

import requests
import sqlalchemy as sa

from nova_lite import conf as conf_module
from nova_lite.db import models, networks
from nova_lite.db.core import Database
from nova_lite.objects import states
from tests.chaos.walked import COMMON, PROJECT, Port, Walked
from tests.guest import tiny_image
from tests.libvirt_host import kill_libvirtd
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import wait_for
from tests.support.two_hosts import Hypervisor, TwoHosts

POWER = {"running": states.RUNNING, "paused": states.POWER_PAUSED, "shut off": states.SHUTDOWN, "crashed": states.CRASHED}
LINES = 50_000
WRITE = f"""#!/bin/sh
[ -s /root/kept ] && exit
born=$(cat /proc/sys/kernel/random/uuid)
yes "$born" | head -n {LINES} > /root/kept.new && sync && mv /root/kept.new /root/kept && sync
"""
"""What a guest does at its first boot: each line of the file says when its disk was made, so that nobody else has to know."""
_PATTERN = bytes(range(256)) * 4096     # what the walk writes at the begin of its volumes: no guest writes to those


class GuestCloud(Walked, TwoHosts):
    """``nova-lite-compute`` and libvirtd of each host can die alone, or with all guests. Broker, database and the hosts are
    real."""

    daemons = {"host-a": "compute-a", "host-b": "compute-b"}

    def __init__(self, directory: pathlib.Path, rabbit: RabbitMQ, maria: MariaDB, rng: random.Random) -> None:
        self.rabbit, self._rng = rabbit, rng
        self.offloads_at_once = rng.random() < 0.5      # else a shelved server stays on its host
        options: dict[str, object] = {
            **COMMON, "debug": True, "compute__shutdown_timeout": 10, "compute__report_interval": 3,
            "conductor__lease_seconds": 9, "conductor__sweep_interval": 2,
            "compute__service_down_time": 40, "compute__resume_guests_state_on_host_boot": True,
            "compute__shelved_offload_time": 0 if self.offloads_at_once else -1}
        super().__init__(directory, rabbit, maria.new_database(), **options)
        self.database = Database(conf_module.load([], config_files=[str(self.config)]))
        self.engine = self.database.engine
        self.key = directory / "id"
        self.written: set[str] = set()      # the volumes that the walk has written to
        self.begin()

    def start(self, hosts: int = 2) -> GuestCloud:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        super().start(hosts)
        with self.database.read() as connection:
            self.network = str(networks.list_networks(connection)[0]["uuid"])
        self.image = self.add_image(tiny_image())
        self.rescue_image = self.add_image(tiny_image(), name="rescue", hw_rescue_device="disk", hw_rescue_bus="virtio")
        client = self.walker()
        client.ok("POST", "/os-keypairs", json={"keypair": {
            "name": "walk", "type": "ssh", "public_key": self.key.with_suffix(".pub").read_text().strip()}})
        self.more = {"key_name": "walk", "config_drive": True, "user_data": base64.b64encode(WRITE.encode()).decode()}
        self.small, large, wide = (client.ok("POST", "/flavors", json={"flavor": {
            "name": f"walk.{name}", "ram": ram, "vcpus": vcpus, "disk": disk}})["flavor"]["id"]
            for name, ram, vcpus, disk in (("small", 128, 1, 1), ("large", 160, 2, 2), ("wide", 128, 1, 2)))
        self.resizes = {"walk.small": large, "walk.large": wide, "walk.wide": large}    # disks never shrink
        return self

    def end(self) -> None:
        """Guests, daemons and networks go, too. The logs of libvirt and QEMU stay beside those of the services."""
        super().end()
        for letter, host in self.hosts.items():
            with contextlib.suppress(FileNotFoundError):
                shutil.copytree(host.state / "libvirt" / "log", self.directory / f"libvirt-{letter}", dirs_exist_ok=True)
        self.stop()

    def hypervisor(self, name: str) -> Hypervisor:
        """By the name of its host."""
        return next(host for host in self.hosts.values() if host.name == name)

    def kill(self, name: str, seconds: float) -> str:
        """A host's libvirtd dies in place of its daemon, or with it. What QEMU does goes on."""
        host = next((host for host, daemon in self.daemons.items() if daemon == name), None)
        if host is None or self.is_held(name):
            return super().kill(name, seconds)
        libvirtd, both = self.hypervisor(host).daemon, f"libvirtd and daemon of {host}"
        who = self._rng.choice((name, f"libvirtd of {host}", both))
        if who == name:
            return super().kill(name, seconds)
        if who == both:
            self.processes[name].kill()
        kill_libvirtd(libvirtd)
        time.sleep(seconds)
        if who == both:
            self.processes[name].start()        # it may find no libvirtd, and end again
        libvirtd.start()
        return who

    def hold_down(self, host: str, rng: random.Random) -> set[str]:
        """Either all power is gone, or only the daemon: guests run on then, which nobody would do to volumes."""
        super().hold_down(host, rng)
        power_is_gone = rng.random() < 0.7
        with self.database.read() as connection:
            table = models.instances.c
            devices = connection.execute(sa.select(table.block_devices).where(table.host == host, table.deleted == 0)).scalars()
            has_volumes = any(d["destination_type"] == "volume" for found in devices for d in found or ())
        if not power_is_gone and not has_volumes:
            return set()
        hypervisor = self.hypervisor(host)
        running = {uuid for uuid, state in hypervisor.guests().items() if state != "shut off"}
        for uuid in sorted(running):
            hypervisor.virsh("destroy", uuid)
        return running

    # what there is ------------------------------------------------------------------------------------------------------
    def guests(self) -> dict[str, dict[str, int]]:
        """As the hypervisors say it; what was set aside is known by its directory."""
        found = {}
        for host in self.hosts.values():
            found[host.name] = {uuid: POWER.get(state, states.NOSTATE) for uuid, state in host.guests().items()}
            found[host.name] |= {path.name: states.NOSTATE for path in host.instances.glob("*_resize")}
        return found

    def ports(self) -> dict[str, Port]:
        """The embedded network's."""
        with self.database.read() as connection:
            return {str(p["uuid"]): Port(p["instance_uuid"], p["host"]) for p in networks.list_ports(connection)}

    def new_port(self) -> str:
        """A port of the user's own."""
        return str(self.database.write(networks.create_port, self.network, PROJECT)["uuid"])

    def new_volume(self) -> str:
        """With a pattern in it, unless the process that makes it is killed on the way."""
        volume = super().new_volume()

        def status() -> Any:
            with contextlib.suppress(requests.RequestException):
                found = self.volumes().get(volume)
                return found if found in ("available", "error") else None
        if wait_for(f"volume {volume}", status, 120) == "available":
            with open(self.volume_file(volume), "r+b") as stream:
                stream.write(_PATTERN)
            self.written.add(volume)
        return volume

    def volume_file(self, volume: str) -> pathlib.Path:
        """Where its data are."""
        return self.short / "volumes" / f"{volume}.raw"

    def image_file(self, image: str) -> pathlib.Path:
        """Where its data are."""
        return self.directory / "images" / f"{image}.data"

    def has_pattern(self, volume: str) -> bool:
        """Whether a volume holds what the walk has written to it."""
        with open(self.volume_file(volume), "rb") as stream:
            return stream.read(len(_PATTERN)) == _PATTERN


def kept_sum(born: str) -> str:
    """The SHA-256 of the file of a guest whose disk was made then."""
    return hashlib.sha256(f"{born}\n".encode() * LINES).hexdigest()
