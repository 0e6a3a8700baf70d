"""The cloud as its user has it: REST with a token of the demo project whose bearer is an admin, too."""
from __future__ import annotations

import base64
import json
import os
import pathlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from keystoneauth1 import adapter, session
from keystoneauth1.identity import v3

from tests.support.process import wait_for

STACK_DIR = pathlib.Path(os.environ.get("STACK_DIR", "/var/lib/nova-lite-stack"))
SERVICES = {"compute": "2.95", "network": None, "block-storage": "3.70", "image": None}
SLOW = 240.0        # seconds: guests are emulated, by two cores
# of a migration, in their order
STATUSES = ("accepted", "queued", "preparing", "running", "completed", "pre-migrating", "migrating", "post-migrating",
            "finished")
FAILURES = ("reverted", "error", "failed", "cancelled")
# counts on the disk, and tells the number and the boot on the console: by them a test sees lost writes and resets
COUNTER = """#!/bin/sh
(while :; do
  echo 3 >/proc/sys/vm/drop_caches
  count=$(($(cat /counter 2>/dev/null || echo 0) + 1)); echo $count >/counter; sync
  echo "count $count of boot $(cat /proc/sys/kernel/random/boot_id)" >/dev/console; sleep 1
done) &
"""


def facts() -> dict[str, Any]:
    """What stack.sh says of itself."""
    return dict(json.loads((STACK_DIR / "stack.json").read_text()))


class Cloud:
    """What a test makes here, ``clean`` removes."""

    def __init__(self) -> None:
        known = facts()
        self.node = str(known["node"])
        auth = v3.Password(known["keystone"], username="admin", password=known["password"], project_name="demo",
                           user_domain_id="default", project_domain_id="default")
        made = session.Session(auth)
        self._apis = {name: adapter.Adapter(made, service_type=name, region_name=known["region"], connect_retries=5,
                                            connect_retry_delay=1, default_microversion=version)
                      for name, version in SERVICES.items()}
        self.image = self.named("image", "v2/images", "tiny")
        self.flavors = {row["name"]: row["id"] for row in self.get("compute", "flavors")["flavors"]}
        self.public, self.private = (self.named("network", "v2.0/networks", name) for name in ("public", "private"))
        self._servers: list[str] = []

    # calls ----------------------------------------------------------------------------------------------------------
    def call(self, service: str, method: str, path: str, **options: Any) -> Any:
        """The answer's JSON. Raises keystoneauth's errors for a refusal."""
        answer = self._apis[service].request(f"/{path}", method, **options)
        return answer.json() if answer.content and "json" in answer.headers.get("Content-Type", "") else None

    def get(self, service: str, path: str) -> Any:
        """GET."""
        return self.call(service, "GET", path)

    def named(self, service: str, path: str, name: str) -> str:
        """The id of what has this name."""
        [found] = self.get(service, f"{path}?name={name}")[path.rpartition("/")[2]][:1]
        return str(found["id"])

    # servers --------------------------------------------------------------------------------------------------------
    def boot(self, host: str, volume: bool = False) -> str:
        """A server on the provider network that is ACTIVE on ``host``, and whose counter runs."""
        made = self.create(host, {"uuid": self.public}, volume)
        wait_for("the guest's counter", lambda: "count 2 of boot" in self.console(made), SLOW, 1)
        return made

    def create(self, host: str, network: dict[str, str], volume: bool = False, script: str = COUNTER) -> str:
        """A server that is ACTIVE on ``host``. ``network``: as the API takes one, {"uuid": ...} or {"port": ...}. ``script``:
        what it runs when it boots first."""
        body: dict[str, Any] = {"name": f"two-hosts-{uuid.uuid4().hex[:6]}", "flavorRef": self.flavors["m1.nano"],
                                "networks": [network], "host": host, "config_drive": True,      # there is no DHCP
                                "user_data": base64.b64encode(script.encode()).decode()}
        if volume:
            body["block_device_mapping_v2"] = [{"boot_index": 0, "uuid": self.image, "source_type": "image", "volume_size": 1,
                                                "destination_type": "volume", "delete_on_termination": True}]
        else:
            body["imageRef"] = self.image
        made = str(self.call("compute", "POST", "servers", json={"server": body})["server"]["id"])
        self._servers.append(made)
        self.until(made, "ACTIVE")
        return made

    def show(self, server: str) -> dict[str, Any]:
        """As an admin sees it."""
        return dict(self.get("compute", f"servers/{server}")["server"])

    def host(self, server: str) -> str:
        """Where it is."""
        return str(self.show(server)["OS-EXT-SRV-ATTR:host"])

    def address(self, server: str) -> str:
        """Its address on the provider network."""
        return str(next(a["addr"] for addresses in self.show(server)["addresses"].values() for a in addresses
                        if a["version"] == 4 and a["addr"].startswith("172.24.4.")))

    def act(self, server: str, action: str, body: Any = None) -> Any:
        """One of the actions."""
        return self.call("compute", "POST", f"servers/{server}/action", json={action: body})

    def until(self, server: str, *statuses: str, seconds: float = SLOW) -> dict[str, Any]:
        """The server, once it is idle in one of these states. AssertionError when it ends in ERROR."""
        def there() -> dict[str, Any] | None:
            shown = self.show(server)
            assert shown["status"] != "ERROR" or "ERROR" in statuses, shown.get("fault")
            return shown if shown["status"] in statuses and shown["OS-EXT-STS:task_state"] is None else None
        found = wait_for(f"{server} to be {statuses}", there, seconds, 0.3)
        assert isinstance(found, dict)
        return found

    def until_task(self, server: str, *task_states: str) -> None:
        """Wait until it is in the middle of something."""
        wait_for(f"{server} to be {task_states}", lambda: self.show(server)["OS-EXT-STS:task_state"] in task_states, SLOW, 0.05)

    def does(self, server: str, action: str, body: Any = None, status: str = "ACTIVE") -> None:
        """An action to its end."""
        self.act(server, action, body)
        self.until(server, status)

    def live_migrate(self, server: str, during: Callable[[], object] | None = None, status: str = "running") -> str:
        """To the other host; ``during`` is called while the migration is in ``status``, or when the server has come ("moved").
        The new host, when the migration is completed."""
        before, last = self.host(server), self.begin_live_migration(server)
        if during is not None:
            if status == "moved":
                wait_for("the move", lambda: self.host(server) != before, SLOW, 0.05)
            else:
                self.until_migration(server, last, status)
            during()
        self.until_migration(server, last, "completed")
        now = self.until(server, "ACTIVE")["OS-EXT-SRV-ATTR:host"]
        assert now != before
        self.check_ports(server, now)
        return str(now)

    def begin_live_migration(self, server: str) -> int:
        """To the other host; the id of the migration before, or 0."""
        last = int(self.migration(server)["id"])
        self.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
        return last

    def abort_live_migration(self, server: str, status: str) -> None:
        """Begin one, and abort it when it is in ``status``. One that is faster than its abort is made again."""
        for _ in range(5):
            self.until_migration(server, self.begin_live_migration(server), status)
            move = self.migration(server)["id"]
            self.call("compute", "DELETE", f"servers/{server}/migrations/{move}", raise_exc=False)
            self.until(server, "ACTIVE")
            if self.migration(server)["status"] == "cancelled":
                return
        raise AssertionError(f"no migration was aborted while {status}: {self.migration(server)}")

    def force_complete(self, server: str) -> None:
        """The newest migration, unless it has ended."""
        self.call("compute", "POST", f"servers/{server}/migrations/{self.migration(server)['id']}/action",
                  json={"force_complete": None}, raise_exc=False)

    def check_ports(self, server: str, host: str) -> None:
        """Each port of a server is bound to its host and nowhere else, and does not seem to leave it."""
        for port in self.get("network", f"v2.0/ports?device_id={server}")["ports"]:
            assert "migrating_to" not in port["binding:profile"], port
            bindings = self.get("network", f"v2.0/ports/{port['id']}/bindings")["bindings"]
            assert [(one["host"], one["status"]) for one in bindings] == [(host, "ACTIVE")], bindings

    def until_migration(self, server: str, last: int, status: str) -> None:
        """Wait until the migration that came after ``last`` has come so far. AssertionError when it ended otherwise."""
        def there() -> bool:
            found = self.migration(server)
            if found["id"] == last:
                return False
            assert found["status"] == status or found["status"] not in FAILURES, f"wanted {status}: {found}"
            return STATUSES.index(found["status"]) >= STATUSES.index(status)
        wait_for(f"the migration to be {status}", there, SLOW, 0.05)

    def migration(self, server: str) -> dict[str, Any]:
        """The newest one."""
        found = self.get("compute", f"os-migrations?instance_uuid={server}")["migrations"]
        return dict(max(found, key=lambda one: one["id"])) if found else {"id": 0, "status": ""}

    def console(self, server: str) -> str:
        """What the guest has said."""
        return str(self.act(server, "os-getConsoleOutput", {})["output"])

    def delete(self, server: str) -> None:
        """To its end."""
        self.call("compute", "DELETE", f"servers/{server}", raise_exc=False)
        wait_for(f"the end of {server}", lambda: self._apis["compute"].get(f"/servers/{server}", raise_exc=False).status_code
                 == 404, SLOW, 0.5)

    def clean(self) -> None:
        """Remove the servers of a test."""
        for server in self._servers:
            self.delete(server)
        self._servers.clear()

    def left(self) -> set[str]:
        """What servers may leave in Neutron and Cinder."""
        ports = {f"port {p['id']}" for p in self.get("network", "v2.0/ports")["ports"]
                 if p["device_owner"].startswith("compute:") or p["binding:profile"].get("migrating_to")}
        rows = ((kind, row["id"]) for kind in ("attachments", "volumes", "snapshots")
                for row in self.get("block-storage", f"{kind}?all_tenants=1")[kind])
        return ports | {f"{kind}: {row}" for kind, row in rows}

    def port(self, network: str) -> str:
        """One of the user's own."""
        body = {"port": {"network_id": network}}
        return str(self.call("network", "POST", "v2.0/ports", json=body)["port"]["id"])

    def volume(self) -> str:
        """One of a GiB that is available."""
        body = {"volume": {"size": 1, "name": "two-hosts"}}
        made = str(self.call("block-storage", "POST", "volumes", json=body)["volume"]["id"])
        self.until_volume(made, "available")
        return made

    def until_volume(self, volume: str, status: str) -> None:
        """Wait for a volume's status."""
        wait_for(f"volume {volume} to be {status}",
                 lambda: self.get("block-storage", f"volumes/{volume}")["volume"]["status"] == status, SLOW, 0.5)


def counts(console: str) -> tuple[list[int], set[str]]:
    """The numbers that the counter told, and the boots in which it did."""
    lines = [line.split() for line in console.splitlines() if line.startswith("count ") and len(line.split()) == 5]
    return [int(line[1]) for line in lines], {line[4] for line in lines}


def pause(seconds: float) -> None:
    """Let a guest run for a while."""
    time.sleep(seconds)
