"""The things that exist while the API is fuzzed: some of the user under test, some of somebody else."""
from __future__ import annotations

import json
import pathlib
import secrets
import threading
import time
import uuid
from typing import Any

import requests

from tests.support.client import Compute

SERVERS, MANY, KINDS = 3, 20, ("server", "volume", "group", "keypair")
CLEARED = 60.0      # seconds
QUOTAS = ("instances", "cores", "ram", "metadata_items", "injected_files", "injected_file_content_bytes",
          "injected_file_path_bytes", "key_pairs", "server_groups", "server_group_members")
NOBODY = str(uuid.uuid4())
FIXED = {"agent_id": ["1"], "cell": ["nova"], "domain": ["x"], "certificate_id": ["root"], "before": ["2026-01-01", "x"],
         "alias": ["os-keypairs", "NMN"], "class_name": ["default", "x"], "console_id": ["1"], "rule_id": [str(uuid.uuid4())],
         "version_id": ["v2.1"], "tag": ["blue", "red"], "key": ["colour", "hw:cpu_policy"], "fixed_ip": ["10.0.0.5"],
         "network": ["private"], "entry": ["power"], "host": ["node", "node-1", "x"], "migration_id": ["1"]}


class Keeper:
    """What one user has; :meth:`refill` makes anew what is gone. ``mark`` is in every name and value."""

    def __init__(self, client: Compute, volumes: str, mark: str) -> None:
        self.client, self.volumes, self.mark = client, volumes, mark
        self.ids: dict[str, str] = {}

    def clear(self) -> None:
        """Delete the servers and volumes of an earlier run, which count against quotas. What cannot be deleted stays."""
        deadline = time.monotonic() + CLEARED
        while servers := self.client.ok("GET", "/servers")["servers"]:
            for server in servers:
                self.client.request("DELETE", f"/servers/{server['id']}")
            if time.monotonic() > deadline:
                break
            time.sleep(1)
        self._delete_surplus_volumes()

    def refill(self, keep: bool = False) -> None:
        """Make what is missing; ``keep``: what is gone must not be."""
        surplus = [s["id"] for s in self.client.ok("GET", "/servers")["servers"] if s["id"] not in self.ids.values()]
        for server in surplus[MANY:]:
            self.client.request("DELETE", f"/servers/{server}")
        self._delete_surplus_volumes()
        for number in range(SERVERS):
            self._ensure(f"server{number}", "/servers/{}", self._server, keep)
        self._ensure("group0", "/os-server-groups/{}", self._group, keep)
        self._ensure("keypair0", "/os-keypairs/{}", self._keypair, keep)
        if "volume0" not in self.ids or self._volume_call("GET", self.ids["volume0"]).status_code == 404:
            assert not (keep and "volume0" in self.ids), "the volume of another project is gone"
            self.ids["volume0"] = self._volume()

    def _ensure(self, name: str, path: str, make: Any, keep: bool) -> None:
        if name in self.ids and self.client.request("GET", path.format(self.ids[name])).status_code == 200:
            return
        assert not (keep and name in self.ids), f"{name} of another project is gone"
        self.ids[name] = make()

    def _server(self) -> str:
        made = self.client.boot(f"{self.mark}-s", metadata={"k": self.mark}, tags=[self.mark], description=self.mark)
        self.client.wait(made["id"], "ACTIVE")
        return str(made["id"])

    def _group(self) -> str:
        body = {"server_group": {"name": f"{self.mark}-g", "policy": "anti-affinity"}}
        return str(self.client.ok("POST", "/os-server-groups", json=body)["server_group"]["id"])

    def _keypair(self) -> str:
        name = f"key-{self.mark[4:]}"       # may stand in a 404
        public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXzVnZQx5zZy0mC8o2u5a0q3nYc9s1QkVn2C0M9r5cT"
        body = {"keypair": {"name": name, "public_key": f"{public} {self.mark}"}}
        self.client.ok("POST", "/os-keypairs", "2.1", json=body)
        return name

    def _delete_surplus_volumes(self) -> None:
        answer = self._volume_call("GET", "")
        assert answer.status_code == 200, answer.text
        for volume in answer.json()["volumes"]:
            if volume["id"] not in self.ids.values():       # one in use is refused
                self._volume_call("DELETE", volume["id"])

    def _volume(self) -> str:
        answer = self._volume_call("POST", "", json={"volume": {"name": f"{self.mark}-v", "size": 1}})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["volume"]["id"])

    def _volume_call(self, method: str, volume: str, **kwargs: Any) -> requests.Response:
        return self.client.session.request(method, f"{self.volumes}/volumes/{volume}".rstrip("/"), timeout=60,
                                           headers={"X-Auth-Token": self.client.token}, **kwargs)

    def snapshot(self) -> dict[str, Any]:
        """What there is, to compare: nobody else may change it."""
        keys = ("name", "status", "metadata", "tags", "description", "locked", "OS-EXT-SRV-ATTR:hostname",
                "os-extended-volumes:volumes_attached")
        servers = {s["id"]: {key: s[key] for key in keys} for s in self.client.servers() if self.mark in s["name"]}
        return {"servers": servers, "groups": self.client.ok("GET", "/os-server-groups")["server_groups"],
                "keypairs": self.client.ok("GET", "/os-keypairs")["keypairs"]}


class World:
    """Both users' things, and the file that hooks.py reads. ``operator`` repairs what an admin under test breaks."""

    def __init__(self, directory: pathlib.Path, own: Keeper, other: Keeper, operator: Compute) -> None:
        self.file, self.own, self.other, self.operator = directory / "world.json", own, other, operator
        self.admin = own.client.token == operator.token
        self.before: dict[str, Any] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self.problems: list[str] = []

    def __enter__(self) -> World:
        self._repair()
        for keeper in (self.own, self.other):
            keeper.clear()
            keeper.refill()
        self.before = self.other.snapshot()
        self.write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """AssertionError when a plain member has changed what is another project's."""
        if not self.admin:
            self.other.refill(keep=True)
            after = self.other.snapshot()
            assert after == self.before, f"another project's things have changed: {self.before} -> {after}"

    def _keep(self) -> None:
        while not self._stop.wait(1.5):
            try:
                self._repair()
                self.own.refill()
                self.write()
            except (AssertionError, requests.RequestException) as error:
                # over quota, or no host just then: what is there must do
                self.problems.append(str(error)[:300])

    def _repair(self) -> None:
        """What an admin under test may have broken for good: flavors, hosts, quotas."""
        if not self.admin:
            return
        self.operator.flavor()
        if not self.operator.ok("GET", "/images", "2.1")["images"]:
            self._image()
        for service in self.operator.ok("GET", "/os-services?binary=nova-compute")["services"]:
            if service["status"] != "enabled" or service["forced_down"]:
                self.operator.ok("PUT", f"/os-services/{service['id']}", json={"status": "enabled", "forced_down": False})
        self.operator.ok("PUT", "/os-quota-class-sets/default", "2.1", json={"quota_class_set": dict.fromkeys(QUOTAS, -1)})
        for project in self._projects():
            self.operator.request("DELETE", f"/os-quota-sets/{project}")
        for group in self.operator.ok("GET", "/os-aggregates")["aggregates"][20:]:
            for host in group["hosts"]:
                self.operator.ok("POST", f"/os-aggregates/{group['id']}/action", json={"remove_host": {"host": host}})
            self.operator.request("DELETE", f"/os-aggregates/{group['id']}")

    def _image(self) -> None:
        """The one that everybody boots from."""
        base = self.own.volumes.rpartition("/volume")[0] + "/image/v2/images"
        headers = {"X-Auth-Token": self.operator.token}
        body = {"name": "tiny", "visibility": "public", "disk_format": "raw", "container_format": "bare"}
        made = requests.post(base, json=body, headers=headers, timeout=60).json()["id"]
        requests.put(f"{base}/{made}/file", data=b"a few bytes", timeout=60,
                     headers={**headers, "Content-Type": "application/octet-stream"}).raise_for_status()

    def _projects(self) -> list[str]:
        return sorted({server["tenant_id"] for server in self.operator.servers("&all_tenants=1")})

    def write(self) -> None:
        """Write the file anew."""
        ids = {f"fuzzown{name}x": value for name, value in self.own.ids.items()}
        ids |= {f"fuzzother{name}x": value for name, value in self.other.ids.items()}
        of = {kind: [name for name in ids if kind in name] for kind in KINDS}
        found = {
            "flavor_id": self._ids("/flavors", "flavors"), "image_id": self._ids("/images", "images"),
            "network_id": self._ids("/os-networks", "networks"), "service_id": self._ids("/os-services", "services"),
            "hypervisor_id": self._ids("/os-hypervisors", "hypervisors"),
            "aggregate_id": self._ids("/os-aggregates", "aggregates"), "port_id": [], "project_id": self._projects()}
        parameters = {**FIXED, "server_id": of["server"], "volume_id": of["volume"], "group_id": of["group"],
                      "keypair_name": of["keypair"], "request_id": self._requests(),
                      **{name: values[:4] or [NOBODY] for name, values in found.items()}}
        data = {"ids": ids, "parameters": parameters, "secrets": [] if self.admin else [self.other.mark],
                "foreign": [] if self.admin else [v for v in self.other.ids.values() if self.other.mark not in v]}
        text = json.dumps(data)
        if not self.file.exists() or self.file.read_text() != text:
            partial = self.file.with_suffix(".partial")
            partial.write_text(text)
            partial.replace(self.file)

    def _ids(self, path: str, name: str) -> list[str]:
        version = "2.1" if name in ("images", "networks") else None
        return [str(item["id"]) for item in self.operator.ok("GET", path, version)[name]]

    def _requests(self) -> list[str]:
        server = next(iter(self.own.ids.values()))
        actions = self.own.client.request("GET", f"/servers/{server}/os-instance-actions")
        return [action["request_id"] for action in actions.json().get("instanceActions", [])][:2] + [f"req-{NOBODY}"]


def new_mark() -> str:
    """A word that nobody else uses."""
    return f"mark{secrets.token_hex(4)}"
