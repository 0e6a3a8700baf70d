"""Clouds under test: ``Services`` (five processes on a real broker and database) and ``Standalone`` (one process)."""
from __future__ import annotations

import json
import pathlib
import signal
import subprocess

import requests

from nova_lite import conf as conf_module
from nova_lite.context import RequestContext
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.image import base as image_base
from tests.support.client import Compute
from tests.support.process import BIN, Process, free_port, wait_for

NAMES = ("conductor", "scheduler", "compute", "api", "api-metadata")


class Services:
    """nova-lite-{api,api-metadata,conductor,scheduler,compute}, each a process of its own, configured by one file.

    ``options`` are ``group__name=value``; the default driver is fake, without network and with noauth2.
    """

    def __init__(self, directory: pathlib.Path, transport_url: str, database_url: str, env: dict[str, str] | None = None,
                 **options: object) -> None:
        self.directory, self.env = directory, env or {}
        directory.mkdir(parents=True, exist_ok=True)
        self.port = int(str(options.get("api__port") or free_port()))
        self.metadata_port = int(str(options.get("metadata__port") or free_port()))
        values: dict[str, object] = {
            "transport_url": transport_url, "host": "node", "state_path": directory, "debug": False,
            "database__connection": database_url, "api__auth_strategy": "noauth2", "api__listen": "127.0.0.1",
            "api__port": self.port, "metadata__port": self.metadata_port, "metadata__listen": "0.0.0.0",  # noqa: S104
            "compute__driver": "fake", "network__driver": "null", "quota__instances": -1, "quota__cores": -1,
            "quota__ram": -1, **options}
        self.config = directory / "nova-lite.conf"
        self.config.write_text(_ini(values))
        self.endpoint = f"http://127.0.0.1:{self.port}/v2.1"
        self.processes = {n: self._process(n) for n in NAMES}
        self.token = "admin:demo"

    def _process(self, name: str) -> Process:
        return Process(name, [str(BIN / f"nova-lite-{name}"), "--config-file", str(self.config)], self.directory, self.env)

    def another(self, service: str, name: str, **options: object) -> Process:
        """One process more of a service, neither started nor stopped with the others; ``options``: what it has of its own."""
        own = self.directory / f"{name}.conf"
        own.write_text(_ini(options))
        process = self._process(service)
        return Process(name, [*process.command, "--config-file", str(own)], self.directory, self.env)

    def manage(self, *arguments: str) -> str:
        """Run nova-lite-manage; its output."""
        done = subprocess.run([BIN / "nova-lite-manage", "--config-file", self.config, *arguments], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, hosts: int = 1) -> Services:
        """Sync the database, start all five, wait until ``hosts`` computes are up."""
        self.manage("db", "sync")
        if "auth_strategy = embedded" in self.config.read_text():
            self.manage("embedded", "setup")
            identity = LocalIdentity(f"{self.directory}/identity")
            passwords = json.loads((identity.directory / "passwords.json").read_text())
            self.token = identity.authenticate("admin", passwords["admin"], None)[0]
        for process in self.processes.values():
            process.start()
        self.wait_ready(hosts)
        return self

    def wait_ready(self, hosts: int = 1) -> None:
        def ready() -> bool:
            for process in self.processes.values():
                assert process.alive(), f"{process.name} died:\n{process.tail()}"
            try:
                answer = requests.get(f"{self.endpoint}/os-services?binary=nova-compute", timeout=5,
                                      headers={"X-Auth-Token": self.token})
            except (requests.ConnectionError, requests.Timeout):       # the first request asks for a token of its own
                return False
            return answer.status_code == 200 and sum(s["state"] == "up" for s in answer.json()["services"]) >= hosts
        wait_for("the services", ready, 180)

    def restart(self, name: str, sig: int = signal.SIGKILL) -> None:
        """Kill one service and start it again."""
        self.processes[name].kill(sig)
        self.processes[name].start()

    def revive(self) -> None:
        """Start what has ended, as the units' Restart=on-failure does: a service that finds no broker at its start ends."""
        for process in self.processes.values():
            if process.popen is not None and not process.alive():
                process.start()

    def client(self, token: str = "admin:demo", version: str = "2.90") -> Compute:
        return Compute(self.endpoint, token, version)

    def add_image(self, path: pathlib.Path | None = None, name: str = "tiny", **properties: str) -> str:
        """Register an image with the embedded driver; without a path, one of a few bytes for the fake hypervisor."""
        conf = conf_module.load([], config_files=[str(self.config)])
        images = image_base.load(conf)
        context = RequestContext(user_id="admin", project_id="demo", roles=["admin"], is_admin=True, overwrite=False)
        made = images.create(context, {"name": name, "visibility": "public", "disk_format": "qcow2" if path else "raw",
                                       "properties": properties})
        with open(path or "/etc/hostname", "rb") as stream:
            images.upload(context, made.id, iter(lambda: stream.read(1 << 20), b""))
        return made.id

    def stop(self) -> None:
        """Stop all, gracefully; a service that does not obey fails the test."""
        for process in self.processes.values():
            if process.popen is not None:
                process.kill(signal.SIGTERM)

    def remove_bridges(self) -> None:
        """Take down the bridges of the embedded network, with dnsmasq and nftables, after all guests are gone."""
        from nova_lite.db.core import Database
        from nova_lite.db.port_store import DatabasePortStore
        from nova_lite.embedded.network.bridge import BridgeNetwork

        conf = conf_module.load([], config_files=[str(self.config)])
        bridges = [path.name for path in (self.directory / "dhcp").iterdir()]
        database = Database(conf)
        try:
            BridgeNetwork(conf, DatabasePortStore(database)).remove_host()
        finally:
            database.dispose()
        for command in (["ip", "-o", "link"], ["nft", "list", "tables"], ["ps", "-e", "-o", "args"]):
            left = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert not [bridge for bridge in bridges if bridge in left], (command, left)

    def logs(self) -> str:
        return "\n".join(f"=== {p.name}\n{p.tail()}" for p in self.processes.values())


class Standalone:
    """nova-lite-standalone in one process, its state in ``directory``."""

    def __init__(self, directory: pathlib.Path, env: dict[str, str] | None = None, *arguments: str) -> None:
        self.directory, self.port, self.metadata_port = directory, free_port(), free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self.url = f"http{'s' if 'tls_cert_file' in str(arguments) else ''}://127.0.0.1:{self.port}"
        self.process = Process("standalone", [
            str(BIN / "nova-lite-standalone"), "--state-path", str(directory / "state"), "--port", str(self.port),
            "--metadata-port", str(self.metadata_port), *arguments], directory, env)

    def start(self, timeout: float = 120) -> Standalone:
        self.process.start()

        def ready() -> bool:
            assert self.process.alive(), f"standalone died:\n{self.process.tail()}"
            return (self.directory / "state" / "clouds.yaml").exists() and healthy(self.url)
        wait_for("the standalone cloud", ready, timeout)
        return self

    def token(self, user: str = "admin") -> str:
        """A token from the embedded identity."""
        import yaml

        cloud = yaml.safe_load((self.directory / "state" / "clouds.yaml").read_text())["clouds"][
            "nova-lite" if user == "admin" else f"nova-lite-{user}"]["auth"]
        answer = requests.post(f"{self.url}/identity/v3/auth/tokens", timeout=10, json={"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": cloud["username"], "domain": {"id": "default"}, "password": cloud["password"]}}},
            "scope": {"project": {"name": cloud["project_name"], "domain": {"id": "default"}}}}})
        assert answer.status_code == 201, answer.text
        return answer.headers["X-Subject-Token"]

    def client(self, user: str = "admin", version: str = "2.90") -> Compute:
        return Compute(f"{self.url}/v2.1", self.token(user), version)

    def stop(self, sig: int = signal.SIGTERM) -> int:
        return self.process.kill(sig, 60)


def healthy(url: str) -> bool:
    """Whether an API answers there."""
    try:
        return requests.get(f"{url}/healthcheck", timeout=2).status_code == 200
    except requests.RequestException:
        return False


def _ini(values: dict[str, object]) -> str:
    groups: dict[str, list[str]] = {}
    for key, value in values.items():
        group, _, name = key.rpartition("__")
        groups.setdefault(group or "DEFAULT", []).append(f"{name} = {value}")
    return "\n".join(f"[{g}]\n" + "\n".join(lines) + "\n" for g, lines in groups.items())
