"""What nova_lite adds to the time that libvirt itself takes, verb by verb, on real guests.

    python -m benchmarks.lifecycle [--reps 5]

Starts a private libvirtd, MariaDB, RabbitMQ and five services (no network) in a temporary directory and boots one server. Its
twin is a domain with the same XML, a disk over the same base image and no nova_lite: each verb is done to the server by REST
(from the POST until GET shows the state that it ends in) and, directly after, to the twin by the same calls of libvirt. Prints
JSON: seconds (medians), what is added, and whether that is within the aim: a tenth, or 100 ms. A poll of the state every
``POLL`` seconds is part of both sides: of libvirt's until the guest is there, then of the API's, as requests to that all the
while would take half a core from the guest. ``stop`` asks the guest itself, so its time is mostly the guest's own.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from xml.etree import ElementTree

import libvirt

from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost
from tests.support.client import Compute
from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import wait_for

POLL = 0.01
AIM_RATIO, AIM_SECONDS = 0.1, 0.1
RUNNING, PAUSED, SHUTOFF = libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_SHUTOFF


class Twin:
    """The domain beside the server's, and the verbs as libvirt's own calls."""

    def __init__(self, connection: libvirt.virConnect, server: libvirt.virDomain, directory: pathlib.Path) -> None:
        self.connection = connection
        self.xml = server.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        root = ElementTree.fromstring(self.xml)
        source = root.find(".//devices/disk[@device='disk']/source")
        assert source is not None
        original = pathlib.Path(source.get("file", ""))
        self.disk, self.console = directory / original.name, directory / "console.log"
        self.base = json.loads(_run("qemu-img", "info", "-U", "--output=json", str(original)))["full-backing-filename"]
        shutil.copytree(original.parent, directory)        # the config drive
        self.disk.unlink()
        for old, new in {str(original.parent): str(directory), server.UUIDString(): str(uuid.uuid4()),
                         f"<name>{server.name()}</name>": "<name>twin</name>"}.items():
            self.xml = self.xml.replace(old, new)

    def boot(self) -> None:
        """What of a build is libvirt's and qemu-img's."""
        _run("qemu-img", "create", "-q", "-f", "qcow2", "-b", self.base, "-F", "qcow2", str(self.disk))
        self.domain = self.connection.defineXML(self.xml)
        self.domain.create()
        self._reached(RUNNING)

    def delete(self) -> None:
        self.domain.destroy()
        self.domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
        self.disk.unlink()

    def verb(self, name: str) -> None:
        """Do it, and wait until it is done."""
        domain = self.domain
        if name == "reboot_hard":
            domain.destroy()
        calls: dict[str, tuple[Callable[[], object], int]] = {
            "pause": (domain.suspend, PAUSED), "unpause": (domain.resume, RUNNING),
            "suspend": (lambda: domain.managedSave(0), SHUTOFF), "resume": (domain.create, RUNNING),
            "stop": (domain.shutdown, SHUTOFF), "start": (domain.create, RUNNING), "reboot_hard": (domain.create, RUNNING)}
        call, state = calls[name]
        call()
        self._reached(state)

    def _reached(self, state: int) -> None:
        while self.domain.state()[0] != state:
            time.sleep(POLL)


class Servers:
    """Servers, and the verbs by REST."""

    def __init__(self, client: Compute, connection: libvirt.virConnect, flavor: str) -> None:
        self.client, self.flavor = client, flavor
        self._connection = connection

    def boot(self) -> str:
        server = str(self.client.boot("bench", self.flavor)["id"])
        self._reached(server, RUNNING)
        self._settled(server, "ACTIVE")
        return server

    def verb(self, server: str, name: str) -> None:
        """Do it, and wait until it is done."""
        action, argument, state, status = VERBS[name]
        before = self._domain(server)
        assert before is not None
        is_new = name == "reboot_hard"      # it runs all the time: another process does
        old = before.ID()
        self.client.action(server, action, argument)
        self._reached(server, state, old if is_new else None)
        self._settled(server, status)

    def delete(self, server: str) -> None:
        self.client.delete(server)
        while self._domain(server) is not None or self.client.request("GET", f"/servers/{server}").status_code != 404:
            time.sleep(POLL)

    def _domain(self, server: str) -> libvirt.virDomain | None:
        try:
            return self._connection.lookupByUUIDString(server)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return None

    def _reached(self, server: str, state: int, but: int | None = None) -> None:
        def is_there() -> bool:
            domain = self._domain(server)
            return domain is not None and domain.state()[0] == state and domain.ID() != but
        wait_for("the guest", is_there, 300, POLL)

    def _settled(self, server: str, status: str) -> None:
        while True:
            found = self.client.server(server)
            if (found["status"], found["OS-EXT-STS:task_state"]) == (status, None):
                return
            assert found["status"] != "ERROR", found.get("fault")
            time.sleep(POLL)


VERBS = {"pause": ("pause", None, PAUSED, "PAUSED"), "unpause": ("unpause", None, RUNNING, "ACTIVE"),
         "suspend": ("suspend", None, SHUTOFF, "SUSPENDED"), "resume": ("resume", None, RUNNING, "ACTIVE"),
         "reboot_hard": ("reboot", {"type": "HARD"}, RUNNING, "ACTIVE"), "stop": ("os-stop", None, SHUTOFF, "SHUTOFF"),
         "start": ("os-start", None, RUNNING, "ACTIVE")}
NEED_A_SYSTEM = ("pause", "stop")       # before these the guest's system has come up, on both sides


def main(argv: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reps", type=int, default=5, help="rounds over all verbs")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="nova-lite-bench-") as name:
        directory = pathlib.Path(name)
        rabbit, maria = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb")
        services = None
        with LibvirtHost(directory / "libvirt") as hypervisor:
            try:
                rabbit.start()
                maria.start()
                services = Services(directory / "cloud", rabbit.url, maria.new_database(), compute__driver="libvirt",
                                    libvirt__connection_uri=hypervisor.uri, compute__shutdown_timeout=60).start()
                services.add_image(tiny_image())
                json.dump(measure(services, libvirt.open(hypervisor.uri), arguments.reps, directory), sys.stdout, indent=1)
                print()
            finally:
                if services is not None:
                    services.stop()
                rabbit.close()
                maria.close()


def measure(services: Services, connection: libvirt.virConnect, reps: int, directory: pathlib.Path) -> dict[str, object]:
    """Median seconds of each verb, on both sides."""
    client = services.client()
    body = {"name": "bench", "ram": 128, "vcpus": 1, "disk": 1}
    servers = Servers(client, connection, client.ok("POST", "/flavors", json={"flavor": body})["flavor"]["id"])
    first = servers.boot()          # what only the first build pays: the image comes into the cache
    twin = Twin(connection, connection.lookupByUUIDString(first), directory / "twin")
    servers.delete(first)
    took: dict[str, tuple[list[float], list[float]]] = {}

    def note(verb: str, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
        for side, call in zip(took.setdefault(verb, ([], [])), (ours, theirs), strict=True):
            started = time.perf_counter()
            call()
            side.append(time.perf_counter() - started)

    for _ in range(reps):
        booted: list[str] = []
        note("boot", lambda: booted.append(servers.boot()), twin.boot)  # noqa: B023
        server = booted[0]
        for verb in VERBS:
            if verb in NEED_A_SYSTEM:
                _system_is_up(client, server, twin)
            note(verb, lambda: servers.verb(server, verb), lambda: twin.verb(verb))  # noqa: B023
        note("delete", lambda: servers.delete(server), twin.delete)  # noqa: B023
    return {verb: _row(*map(statistics.median, sides)) for verb, sides in took.items()}


def _row(ours: float, theirs: float) -> dict[str, object]:
    added = ours - theirs
    return {"nova_lite_s": round(ours, 4), "libvirt_s": round(theirs, 4), "added_s": round(added, 4),
            "added_ratio": round(added / theirs, 3), "within_aim": added < AIM_SECONDS or added / theirs < AIM_RATIO}


def _system_is_up(client: Compute, server: str, twin: Twin) -> None:
    wait_for("the server's login prompt", lambda: "login:" in client.action(server, "os-getConsoleOutput", {})["output"], 300)
    wait_for("the twin's login prompt", lambda: "login:" in twin.console.read_text(errors="replace"), 300)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
