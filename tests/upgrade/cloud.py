"""A cloud of the old release, with servers in every state and in the middle of everything, that is upgraded in place."""
from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from nova_lite.db.core import make_engine
from tests.chaos.walk import Step
from tests.chaos.walked import COMMON, PROJECT, Port, Walked
from tests.support.client import Compute
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron
from tests.support.process import Process, wait_for
from tests.upgrade import cases, old_tree
from tests.upgrade.cases import Case

HOSTS = ("host-1", "host-2", "host-3")
DOOMED = "host-4"           # dies under the old release, and its servers are evacuated
ORDER = ("conductor", "scheduler", *HOSTS, DOOMED, "api", "api-metadata")
OLD_VERSION = "2.96"        # the newest microversion of 7e3bb42
PATIENCE = 300.0
HERE = pathlib.Path(__file__).parent


class UpgradedCloud(Walked):
    """The processes are those of the old release until :meth:`upgrade` has each of them replaced."""

    daemons = {host: host for host in (*HOSTS, DOOMED)}

    def __init__(self, directory: pathlib.Path, rabbit: RabbitMQ, maria: MariaDB, neutron: FakeNeutron) -> None:
        self.rabbit, self.neutron, database_url = rabbit, neutron, maria.new_database()
        self.engine = make_engine(database_url)
        super().__init__(
            directory, rabbit.url, database_url, network__driver="neutron", network__vif_plugging_timeout=0,
            image__local_path=directory / "images", volume__local_path=directory / "volumes", fake__fetch_images=True,
            fake__delay=0.02, fake__state_file=directory / "guests.json", conductor__lease_seconds=6,
            conductor__sweep_interval=1, compute__report_interval=2, graceful_shutdown_timeout=5,
            # a restart takes long on a busy machine, and no host but one shall be taken for dead
            compute__service_down_time=180, compute__shelved_offload_time=-1, **COMMON)
        with self.config.open("a") as file:
            file.write(CREDENTIALS.format(url=neutron.url) + "timeout = 10\n")
        del self.processes["compute"]
        for host in self.daemons:
            self.processes[host] = self.another("compute", host, host=host)
        self.new = dict(self.processes)
        self.python = old_tree.python()
        self.processes = {name: self._old(name, process) for name, process in self.new.items()}
        self.holds = directory / "holds"
        self.holds.mkdir()
        self.servers_of: dict[str, str] = {}        # name -> id
        self.steps: list[Step] = []
        self.volumes_made: set[str] = set()
        self.begin()

    def _old(self, name: str, new: Process) -> Process:
        program = [self.python.parent / pathlib.Path(new.command[0]).name]
        if name in self.daemons:
            program = [self.python, HERE / "held_compute.py"]
        env = {"NOVA_LITE_HOLDS": str(self.directory / "holds"), "PYTHONSAFEPATH": "1"}
        return Process(f"old-{name}", [*map(str, program), *new.command[1:]], self.directory, env)

    def run_old(self, *command: object) -> str:
        """The output of a program of the old release."""
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, cwd=self.directory)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # the old release ----------------------------------------------------------------------------------------------------
    def start_old(self) -> None:
        """Its services, and what servers are made of."""
        self.run_old(self.python.parent / "nova-lite-manage", "--config-file", self.config, "db", "sync")
        for process in self.processes.values():
            process.start()
        self.wait_ready(len(self.daemons))
        self.network = self.neutron.add_network(project_id=PROJECT)
        self.image = self.run_old(self.python, "-P", HERE / "add_image.py", self.config, "tiny").strip()
        self.small = self.walker().flavor("upgrade.small")
        large = self.walker().ok("POST", "/flavors", json={"flavor": {
            "name": "upgrade.large", "ram": 128, "vcpus": 2, "disk": 2}})["flavor"]["id"]
        self.given = {"image": self.image, "large": large}

    def old_user(self) -> Compute:
        """A client at the microversion that both releases know."""
        return self.client(f"admin:{PROJECT}", OLD_VERSION)

    def boot(self, name: str, more: Iterable[str] = (), host: str | None = None, **values: Any) -> requests.Response:
        """POST /servers."""
        body: dict[str, Any] = {"name": name, "flavorRef": self.small, "networks": [{"uuid": self.network}], **values}
        if host is not None:
            body["host"] = host
        if "volume" in more:
            body["block_device_mapping_v2"] = [{
                "boot_index": 0, "uuid": self.image, "source_type": "image", "destination_type": "volume",
                "volume_size": 1, "delete_on_termination": True}]
        else:
            body["imageRef"] = self.image
        hints = {"os:scheduler_hints": {"group": body.pop("group")}} if "group" in body else {}
        answer = self.old_user().request("POST", "/servers", json={"server": body, **hints})
        if answer.status_code == 202:
            self.servers_of[name] = answer.json()["server"]["id"]
        return answer

    def make(self, name: str, status: str, number: int, more: Iterable[str] = (), **values: Any) -> None:
        """A server that has come to ``status`` and rests there; ``number``: which of the hosts it is on."""
        user, host = self.old_user(), DOOMED if "doomed" in more else HOSTS[number % len(HOSTS)]
        answer = self.boot(name, more, None if "group" in values else host, **values)
        assert answer.status_code == 202, answer.text
        server = self.servers_of[name]
        user.wait(server, "ACTIVE", PATIENCE)
        if "data" in more:
            self.attach_volume(user, server)
            self.wait_until_idle(server)
        for verb in cases.LEADS_TO[status]:
            self.act(user, server, verb, {"resize": {"flavorRef": self.given["large"]}, "rescue": {}}.get(verb))
            self.wait_until_idle(server)
        user.wait(server, status, PATIENCE)

    def act(self, user: Compute, server: str, verb: str, argument: Any = None) -> requests.Response:
        """One request of :data:`cases.CASES`."""
        volumes = f"/servers/{server}/os-volume_attachments"
        if verb == cases.DELETE:
            return user.request("DELETE", f"/servers/{server}")
        if verb == cases.ATTACH_VOLUME:
            return self.attach_volume(user, server)
        if verb == cases.DETACH_VOLUME:
            return user.request("DELETE", f"{volumes}/{user.ok('GET', volumes)['volumeAttachments'][0]['volumeId']}")
        if verb == cases.ATTACH_NIC:
            return user.request("POST", f"/servers/{server}/os-interface", json={
                "interfaceAttachment": {"net_id": self.network}})
        if verb == cases.DETACH_NIC:
            nics = user.ok("GET", f"/servers/{server}/os-interface")["interfaceAttachments"]
            return user.request("DELETE", f"/servers/{server}/os-interface/{nics[0]['port_id']}")
        return user.request("POST", f"/servers/{server}/action", json={verb: argument})

    def attach_volume(self, user: Compute, server: str) -> requests.Response:
        """A new volume."""
        volume = self.new_volume()
        self.volumes_made.add(volume)
        return user.request("POST", f"/servers/{server}/os-volume_attachments", json={"volumeAttachment": {"volumeId": volume}})

    def wait_until_idle(self, server: str) -> None:
        """Nothing is under way with it."""
        def idle() -> bool:
            answer = self.old_user().request("GET", f"/servers/{server}")
            actions = self.old_user().ok("GET", f"/servers/{server}/os-instance-actions")["instanceActions"]
            busy = answer.status_code == 200 and answer.json()["server"]["OS-EXT-STS:task_state"]
            latest = self.old_user().ok("GET", f"/servers/{server}/os-instance-actions/{actions[0]['request_id']}")
            return not busy and bool(latest["instanceAction"].get("updated_at")) and all(
                e["finish_time"] for e in latest["instanceAction"]["events"])
        wait_for(f"{server} to be idle", idle, PATIENCE, 0.3)

    # in the middle ------------------------------------------------------------------------------------------------------
    def ask(self, case: Case) -> Step:
        """The request of a case, as its user makes it. What dies over it answers nothing."""
        step = Step(self.servers_of.get(case.name, ""), case.name)
        self.steps.append(step)
        verb, argument = case.ask(self.given)
        try:
            user = self.old_user()
            answer = self.act(user, step.server, verb, argument) if case.since else self.boot(case.name, case.more)
        except requests.RequestException as error:
            step.text = str(error)
            return step
        step.server = self.servers_of.get(case.name, "")
        step.request_id = answer.headers.get("x-openstack-request-id", "")
        step.status, step.text = answer.status_code, answer.text[:300]
        return step

    def hold(self, case: Case) -> str | None:
        """Ask, and wait until the work has come to where it is held; why it has not."""
        assert case.at is not None
        for point in case.fails:
            (self.holds / f"{case.name}@{point}").write_text("fail")
        (self.holds / f"{case.name}@{case.at}").write_text("hold")
        threading.Thread(target=self.ask, args=(case,), daemon=True).start()
        reached = self.holds / f"{case.name}@{case.at}.reached"
        try:
            wait_for(f"{case.name} to reach {case.at}", reached.exists, 90)
        except AssertionError as error:
            step = next(s for s in self.steps if s.verb == case.name)
            return f"{error}; {step} {self.old_user().request('GET', f'/servers/{step.server}').text}"
        return None

    # the upgrade --------------------------------------------------------------------------------------------------------
    def stop_old(self, *names: str) -> None:
        """As their units do."""
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(lambda name: self.processes[name].kill(signal.SIGTERM), names))

    def start_new(self, name: str) -> None:
        """The new process in place of the old one, which has ended; until it says that it is ready."""
        assert not self.processes[name].alive()
        process = self.processes[name] = self.new[name]
        process.start()

        def ready() -> bool:
            assert process.alive(), f"{name} ended:\n{process.tail()}"
            return "is ready" in process.log.read_text(errors="replace")
        wait_for(f"{name} to be ready", ready, 180)

    def restart(self, name: str, sig: int = signal.SIGTERM) -> None:
        """One step of the upgrade."""
        self.processes[name].kill(sig)
        self.start_new(name)

    # what there is ------------------------------------------------------------------------------------------------------
    def guests(self) -> dict[str, dict[str, int]]:
        """Read as the driver writes it."""
        found = {}
        for host in self.daemons:
            path = self.directory / f"guests.json.{host}"
            known: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
            found[host] = {uuid: guest.get("power_state", -1) for uuid, guest in known.items()}
        return found

    def ports(self) -> dict[str, Port]:
        """Neutron's."""
        return {p["id"]: Port(p["device_id"], p["binding:host_id"] or None, p.get("waiting"),
                              (p.get("binding:profile") or {}).get("migrating_to"))
                for p in list(self.neutron.ports.values())}

    def seen(self, names: Sequence[str]) -> Mapping[str, Any]:
        """All that a user sees of some servers."""
        user, found = self.old_user(), {}
        for name in names:
            path = f"/servers/{self.servers_of[name]}"
            actions = user.ok("GET", f"{path}/os-instance-actions")["instanceActions"]
            found[name] = {"server": user.server(self.servers_of[name]), "actions": {a["request_id"]: a for a in actions},
                           "more": {of: user.ok("GET", f"{path}/{of}") for of in ("os-volume_attachments", "os-interface")}}
        return found
