"""What must be true of a cloud that has come to rest, whatever was asked of it and whoever died meanwhile."""
from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import requests
import sqlalchemy as sa

from nova_lite.db import models
from nova_lite.objects import migration, states
from nova_lite.objects.instance import SHELVED_IMAGE
from tests.chaos.walk import GONE, STAYS_DEAD, VERBS, Step, Walk
from tests.chaos.walked import Walked

# what is given back a little after the action that wanted it has ended, or at a look of conductor/leaked_resources.py
AFTERWARDS = 75.0
ASIDE = "_resize"
_POWER = {"ACTIVE": states.RUNNING, "RESCUE": states.RUNNING, "PAUSED": states.POWER_PAUSED, "SHUTOFF": states.SHUTDOWN,
          "SUSPENDED": states.SHUTDOWN, "SHELVED": states.SHUTDOWN, "SOFT_DELETED": states.SHUTDOWN}
# the only reasons for which kills alone may end an action in an error; volumes of files are made by the API's process
_EXCUSES = re.compile("No valid host|workers died|was given up|did not finish being created|still in use|\\[fake\\] fail")
# two verbs at the same time wanted one volume or port. The second one is refused, as Nova does it: with 400 for a volume, with
# 500 for a port when the host finds that another server has it
_VOLUME_IN_USE = re.compile("already attached to instance|Volume [-0-9a-f]+ status must be available")
_VOLUME_IN_A_STEP = re.compile("Invalid volume: volume [-0-9a-f]+ is in the middle of '(attach|detach|swap)_volume'")
_PORT_IN_USE = re.compile("Failed to attach a network interface to [-0-9a-f]+: Port ([-0-9a-f]+) is still in use")
_DEAD_HOST = "stopped reporting"        # a reason only where a host stays dead: a host that comes back is not taken for dead


def _is_excused(walk: Walk, fault: str) -> bool:
    is_of_dead_host = _DEAD_HOST in fault and any(kill.endswith(STAYS_DEAD) for kill in walk.kills)
    return is_of_dead_host or bool(_EXCUSES.search(fault))


class Checks:
    """``settled`` waits, ``problems`` says what is wrong in words; an empty list is a cloud in order."""

    settle = 240.0      # seconds until nothing is under way: leases, sweeps and restarts, with room for a noisy machine

    def __init__(self, cloud: Walked) -> None:
        self.cloud, self.engine = cloud, cloud.engine

    # waiting ------------------------------------------------------------------------------------------------------------
    def settled(self) -> None:
        """AssertionError, with what is under way, when there is no end."""
        deadline = time.monotonic() + self.settle
        while under_way := self._under_way():
            assert time.monotonic() < deadline, f"still under way after {self.settle} s: {under_way}\n{self.cloud.logs()}"
            self.cloud.revive()
            time.sleep(0.3)

    def _under_way(self) -> list[str]:
        table, actions = models.instances.c, models.instance_actions
        with self.engine.connect() as connection:
            busy = connection.execute(sa.select(table.uuid, table.vm_state, table.task_state).where(
                table.deleted == 0, sa.or_(table.task_state.is_not(None), table.vm_state == states.BUILDING))).all()
            open_actions = connection.execute(sa.select(
                actions.c.id, actions.c.instance_uuid, actions.c.action, actions.c.state, actions.c.stage, actions.c.host,
                actions.c.attempts, actions.c.arguments).where(actions.c.state.in_(("pending", "running")))).all()
        return [str(row) for row in (*busy, *open_actions)]

    # looking ------------------------------------------------------------------------------------------------------------
    def problems(self, walk: Walk) -> list[str]:
        """What a moment heals is given the moment; the rest is told."""
        deadline = time.monotonic() + AFTERWARDS
        while True:
            try:
                found = self._look(walk)
            except requests.RequestException as error:
                found = [f"the API does not answer: {error}"]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(1)

    def _look(self, walk: Walk) -> list[str]:
        servers = self.cloud.servers()
        with self.engine.connect() as connection:
            rows = {r["uuid"]: dict(r) for r in connection.execute(sa.select(models.instances).where(
                models.instances.c.deleted == 0)).mappings()}
            moves = [dict(r) for r in connection.execute(sa.select(models.migrations).where(
                models.migrations.c.status.not_in(migration.ENDED))).mappings()]
            claims = self._claims(connection)
            nodes = {r["host"]: dict(r) for r in connection.execute(sa.select(models.compute_nodes)).mappings()}
            actions = {r["request_id"]: dict(r) for r in connection.execute(sa.select(models.instance_actions)).mappings()}
        if servers.keys() != rows.keys():
            return [f"the API lists {sorted(servers)}, the database has {sorted(rows)}"]
        return [*self._ends(walk, servers, rows, actions), *self._moves(rows, moves), *self._room(rows, moves, claims, nodes),
                *self._guests(walk, servers, rows, moves), *self._ports(walk, rows), *self._volumes(walk, rows),
                *self._images(servers, rows), *self._hosts(servers, rows, moves)]

    def _hosts(self, servers: dict[str, Any], rows: dict[str, Any], moves: list[Any]) -> Iterable[str]:
        """What the hypervisors themselves have to show."""
        return ()

    @staticmethod
    def _claims(connection: sa.Connection) -> Counter[tuple[str, str, int, int]]:
        table, nodes = models.allocations, models.compute_nodes
        rows = connection.execute(sa.select(table, nodes.c.host).join(nodes, nodes.c.id == table.c.compute_node_id)).mappings()
        return Counter((r["instance_uuid"], r["host"], r["vcpus"], r["memory_mb"]) for r in rows)

    def _ends(self, walk: Walk, servers: dict[str, Any], rows: dict[str, Any], actions: dict[str, Any]) -> Iterator[str]:
        """Each server is where a verb leads, or where it was, or in ERROR with the reason."""
        asked: dict[str, list[Step]] = {}
        for step in walk.steps:
            if step.status is None or step.status < 300:
                asked.setdefault(step.server, []).append(step)
            elif (step.status == 400 or step.status >= 500) and not self._wanted_by_two(walk, step):
                yield f"the API said {step}"
        for uuid in {*servers, *walk.before, *asked} - {""}:
            steps, was = asked.get(uuid, []), walk.before[uuid]["status"] if uuid in walk.before else "ACTIVE"
            may = {was}.union(*(VERBS[s.verb].ends for s in steps if s.verb in VERBS))
            if uuid in walk.cut and (was == "PAUSED" or steps):     # what was to be done with it found it off
                may.add("SHUTOFF")
            now = servers[uuid]["status"] if uuid in servers else GONE
            fault = (rows[uuid]["fault"] or {}).get("message") if uuid in rows else None
            if now == "ERROR" and "fault" not in servers[uuid]:
                yield f"{uuid} is in ERROR, and the API does not say why"
            if now == "ERROR" and was != "ERROR" and not _is_excused(walk, fault or ""):
                yield f"{uuid} was {was}, is in ERROR with the fault {fault!r} after {[str(s) for s in steps]}"
            elif now not in may and now != "ERROR":
                yield f"{uuid} was {was} and is {now} after {[str(s) for s in steps]}"
            deleted = now in (GONE, "SOFT_DELETED")     # what else was to be done with it is not
            for step in steps:
                action = actions.get(step.request_id)
                failed = action is not None and action["state"] == "error"
                # what ends where it began leaves no fault: its events say why
                told = step.verb in VERBS and not VERBS[step.verb].ends and not fault
                if failed and not deleted and not told and uuid not in walk.cut and not _is_excused(walk, fault or ""):
                    yield f"{step} failed with the fault {fault!r}; {uuid} was {was} and is {now}"
                if action is not None and action["finish_time"] is None:
                    yield f"{step} has no end"
                if step.status and len(steps) == 1 and action and not failed and step.verb in VERBS and VERBS[step.verb].ends \
                        and now not in VERBS[step.verb].ends:
                    yield f"{step} was done, they say, and {uuid}, {was} before, is {now}"

    def _wanted_by_two(self, walk: Walk, step: Step) -> bool:
        """Whether another verb of the round wanted the same volume or port."""
        if step.status == 400 and _VOLUME_IN_A_STEP.search(step.text):
            return any(other is not step and other.server == step.server and "volume" in other.verb for other in walk.steps)
        if step.status == 400:
            return bool(_VOLUME_IN_USE.search(step.text))
        port = _PORT_IN_USE.search(step.text)
        if step.status != 500 or port is None:
            return False
        has = self.cloud.ports().get(port[1])
        return has is not None and has.server not in (None, "", step.server)

    @staticmethod
    def _moves(rows: dict[str, Any], moves: list[Any]) -> Iterator[str]:
        for move in moves:
            server = rows.get(move["instance_uuid"])
            if move["status"] != migration.FINISHED or server is None or server["vm_state"] != states.RESIZED:
                yield (f"open move {move['id']} ({move['migration_type']}, {move['status']}) of "
                       f"{server and server['vm_state']} {move['instance_uuid']}")
        of = Counter(m["instance_uuid"] for m in moves)
        for uuid, server in rows.items():
            if (server["vm_state"] == states.RESIZED) != (of[uuid] == 1):
                yield f"{uuid} is {server['vm_state']} and has {of[uuid]} open moves"

    @staticmethod
    def _room(rows: dict[str, Any], moves: list[Any], claims: Counter[Any], nodes: dict[str, Any]) -> Iterator[str]:
        wanted = Counter((uuid, s["host"], s["vcpus"], s["memory_mb"]) for uuid, s in rows.items() if s["host"])
        wanted += Counter((m["uuid"], m["source_compute"], m["old_flavor"]["vcpus"], m["old_flavor"]["memory_mb"])
                          for m in moves)
        for claim in claims - wanted:
            yield f"claim of nobody: {claim}"
        for claim in wanted - claims:
            yield f"claim that is missing: {claim}"
        for host, node in nodes.items():
            mine = [c for c in claims.elements() if c[1] == host]
            sums = (sum(c[2] for c in mine), sum(c[3] for c in mine), len(mine))
            if sums != (node["vcpus_used"], node["memory_mb_used"], node["instances_used"]):
                yield f"{host} says {node['vcpus_used']}, {node['memory_mb_used']}, {node['instances_used']}; its claims {sums}"
            if sums[0] > node["vcpus"] * node["cpu_allocation_ratio"] or \
                    sums[1] > node["memory_mb"] * node["ram_allocation_ratio"]:
                yield f"{host} is full beyond its size: {sums}"

    def _guests(self, walk: Walk, servers: dict[str, Any], rows: dict[str, Any], moves: list[Any]) -> Iterator[str]:
        there = {(uuid, host): power for host, guests in self.cloud.guests().items() for uuid, power in guests.items()}
        wanted: set[tuple[str, str]] = {(uuid, s["host"]) for uuid, s in rows.items() if s["host"]}
        wanted |= {(m["instance_uuid"] + ASIDE, m["source_compute"]) for m in moves}
        for one in sorted(there.keys() - wanted):
            yield f"guest that should not be: {one}, its server {servers.get(one[0].removesuffix(ASIDE), {}).get('status')}"
        for uuid, host in sorted(wanted - there.keys()):
            if servers.get(uuid, {}).get("status") != "ERROR":
                yield f"guest that is missing: {uuid} on {host}"
        for uuid, server in servers.items():
            power, should = there.get((uuid, rows[uuid]["host"])), _POWER.get(server["status"])
            if server["status"] == "RESCUE" and uuid in walk.ever_cut:
                should = power      # no host starts that again by itself
            if power is not None and should is not None and (power, rows[uuid]["power_state"]) != (should, should):
                yield f"{uuid} is {server['status']}, its guest {power}, its record {rows[uuid]['power_state']}"

    def _ports(self, walk: Walk, rows: dict[str, Any]) -> Iterator[str]:
        ports = self.cloud.ports()
        have = {port: (has.server, has.host) for port, has in ports.items()}
        wanted = {vif["id"]: (uuid, s["host"]) for uuid, s in rows.items() for vif in s["network_info"] or ()}
        for port, (device, host) in sorted(have.items()):
            if port not in wanted and (device or port not in walk.ports):
                yield f"port of nobody: {port} of {device} on {host}, {device in rows and rows[device]['vm_state']}"
            elif port not in wanted and host:
                yield f"port {port} is the user's and still bound to {host}"
            # that of a server on a shelf stays bound to where it was
            elif port in wanted and (device, wanted[port][1] and host) != wanted[port]:
                yield f"port {port} has {(device, host)}, its server says {wanted[port]}"
            if ports[port].waiting:
                yield f"port {port} has bindings that nobody activated: {ports[port].waiting}"
            if ports[port].leaves_to:
                yield f"port {port} is said to leave to {ports[port].leaves_to}"
        for port in sorted(wanted.keys() - have.keys()):
            yield f"port {port} of {wanted[port]} is gone"

    def _volumes(self, walk: Walk, rows: dict[str, Any]) -> Iterator[str]:
        have = {a.id: (a.server_id, a.volume_id, a.status) for a in self.cloud.attachments()}
        wanted = {d["attachment_id"]: (uuid, d["volume_id"], "attached" if s["host"] else "reserved")
                  for uuid, s in rows.items() for d in s["block_devices"] or () if d.get("attachment_id")}
        # what was attached to a server on a shelf is in use at once, as in Nova; what it had when it left its host is reserved
        wanted |= {a: have[a] for a, (uuid, volume, _status) in wanted.items()
                   if rows[uuid]["host"] is None and have.get(a) == (uuid, volume, "attached")}
        if self.cloud.fails:        # an attach that could not even be undone stays in the list until it is detached
            wanted |= {d["attachment_id"]: have.get(d["attachment_id"], wanted[d["attachment_id"]])
                       for s in rows.values() for d in s["block_devices"] or () if d.get("attachment_id") and not d["attached"]}
        for attachment in sorted(have.keys() | wanted.keys()):
            if have.get(attachment) != wanted.get(attachment):
                uuid = (have.get(attachment) or wanted[attachment])[0]
                yield f"attachment {attachment}: Cinder has {have.get(attachment)}, the server {wanted.get(attachment)} " \
                      f"({uuid in rows and rows[uuid]['vm_state']})"
        devices = [(uuid, d) for uuid, s in rows.items() for d in s["block_devices"] or () if d["destination_type"] == "volume"]
        for uuid, device in devices:
            if rows[uuid]["vm_state"] != states.ERROR and not device.get("attachment_id"):
                yield f"{uuid} has a volume without attachment: {device}"
        known = walk.volumes | {d["volume_id"] for _uuid, d in devices} | self.cloud.with_snapshots()
        for volume, status in self.cloud.volumes().items():
            if volume not in known:
                yield f"volume of nobody: {volume}, {status}"

    def _images(self, servers: dict[str, Any], rows: dict[str, Any]) -> Iterator[str]:
        shelved = {s["system_metadata"].get(SHELVED_IMAGE) for s in rows.values()
                   if s["vm_state"] in (states.SHELVED, states.SHELVED_OFFLOADED)}
        for image in self.cloud.walker().ok("GET", "/images/detail", "2.1")["images"]:
            if image["status"] != "ACTIVE":
                yield f"image {image['name']} ({image['id']}) is {image['status']}: {json.dumps(image['metadata'])}"
            elif image["name"].endswith("-shelved") and image["id"] not in shelved:
                yield f"image {image['id']} of a server that is not shelved any more"
        images = {i["id"] for i in self.cloud.walker().ok("GET", "/images", "2.1")["images"]}
        for image in shelved - images - {None}:
            yield f"the image {image} of a shelved server is gone"
