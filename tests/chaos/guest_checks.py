"""What two hypervisors must show of a cloud that has come to rest: each guest once, as its server says, and nothing else."""
from __future__ import annotations

import hashlib
import pathlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lxml import etree

from nova_lite.virt.libvirt.files import ASIDE, RECORD, GuestDirectory
from nova_lite.virt.libvirt.guest_record import State
from tests.chaos.guest_cloud import GuestCloud
from tests.chaos.guest_disks import GuestDisks
from tests.chaos.walk import Walk
from tests.chaos.walk_checks import Checks
from tests.support.two_hosts import Hypervisor, run

_FILES = {"disk", "disk.config", "console.log", RECORD, "binding.json"}
_RESCUE = {"disk.rescue", "disk.rescue.image", "disk.config.rescue"}
_HELPERS = ("qemu-storage-daemon", "qemu-img", "qemu-nbd")


class GuestChecks(Checks):
    """Adds hosts and disks to what is looked at."""

    settle = 600.0      # a guest that does not hear is asked eight times, for 20 seconds each, to let go of a device
    cloud: GuestCloud

    def __init__(self, cloud: GuestCloud) -> None:
        super().__init__(cloud)
        self._disks = GuestDisks(cloud)
        self._sums: dict[str, str] = {}

    def problems(self, walk: Walk) -> list[str]:
        """Only a cloud in order is asked what is in its disks: that takes longer."""
        return super().problems(walk) or self._disks.problems(walk)

    def left(self) -> list[str]:
        """What is still there when all servers are gone."""
        found = [f"{host.name} still has {what}: {some}" for host in self.cloud.hosts.values()
                 for what, some in host.left().items()]
        return found + [f"a process of nobody: {process}" for process in self._processes().values()]

    def _hosts(self, servers: dict[str, Any], rows: dict[str, Any], moves: list[Any]) -> Iterator[str]:
        of = Counter(uuid for uuid, _process in self._qemus())
        for host in self.cloud.hosts.values():
            mine = {uuid: servers[uuid] for uuid, row in rows.items() if row["host"] == host.name}
            asides = {move["instance_uuid"] + ASIDE for move in moves if move["source_compute"] == host.name}
            states = host.guests()
            active = {uuid for uuid, state in states.items() if state in ("running", "paused")}
            yield from self._directories(host, mine, asides)
            yield from self._networks(host, {u: rows[u] for u in mine}, active)
            for uuid in sorted(active & mine.keys()):
                yield from self._domain(host, servers[uuid], rows[uuid])
            if secrets := host.virsh("secret-list"):
                yield f"{host.name} has secrets: {secrets}"
            saved = set(host.virsh("list", "--all", "--with-managed-save", "--uuid").split())
            suspended = {uuid for uuid, server in mine.items() if server["status"] == "SUSPENDED"}
            if saved != suspended:
                yield f"{host.name} has saved memory of {sorted(saved)}, suspended are {sorted(suspended)}"
            for uuid in sorted(active):
                if of[uuid] != 1:
                    yield f"{uuid} has {of[uuid]} processes, and runs on {host.name}"
            of.subtract(dict.fromkeys(active, 1))
        for uuid, count in of.items():
            if count > 0:
                yield f"{uuid} has {count} processes that no hypervisor knows"
        for process in self._processes().values():
            yield f"a helper that has not ended: {process}"

    def _directories(self, host: Hypervisor, mine: dict[str, Any], asides: set[str]) -> Iterator[str]:
        there = {path.name: path for path in host.instances.iterdir()} if host.instances.is_dir() else {}
        for name in sorted(there.keys() - mine.keys() - asides - {"_base"}):
            yield f"{host.name} has a directory of nobody: {name} with {sorted(p.name for p in there[name].iterdir())}"
        for name in sorted((mine.keys() | asides) - there.keys()):
            if mine.get(name, {}).get("status") != "ERROR":
                yield f"{host.name} lacks the directory {name}"
        for name in sorted((mine.keys() | asides) & there.keys()):
            files = {p.name for p in there[name].iterdir()}
            status = mine.get(name, {}).get("status")
            may_be_rescued = status in ("RESCUE", "SOFT_DELETED")       # a restore ends the rescue of such a server, too
            allowed = _FILES | (_RESCUE if may_be_rescued else set())
            if status != "ERROR" and (extra := files - allowed):
                yield f"{host.name} has files of nobody in {name} ({status}): {sorted(extra)}"
            record = GuestDirectory(host.instances, name).record
            wanted = {State.ASIDE} if name in asides else {State.HERE, State.ADOPTED}
            if status != "ERROR" and (record.host != host.name or record.state not in wanted):
                yield f"{host.name} has {name}, which says that it is {record.host!r}'s, and {record.state}"
        for path in (host.instances / "_base").glob("[!.]*"):
            if _sum(path) != self._image_sum(path):
                yield f"the base image {path.name} of {host.name} has changed"

    def _image_sum(self, base: pathlib.Path) -> str:
        """Of the image, or, when that of a server which has left its shelf is gone, of the base image as it was found first."""
        if base.name not in self._sums:
            image = self.cloud.image_file(base.name)
            self._sums[base.name] = _sum(image if image.exists() else base)
        return self._sums[base.name]

    @staticmethod
    def _networks(host: Hypervisor, rows: dict[str, Any], active: set[str]) -> Iterator[str]:
        names = {uuid: {vif["devname"] for vif in row["network_info"] or ()} for uuid, row in rows.items()}
        wanted = {name for uuid, some in names.items() if uuid in active for name in some}
        taps, filters = set(host.taps()), set(host.filters())
        if taps != wanted:
            yield f"{host.name} has the taps {sorted(taps)}, its guests {sorted(wanted)}"
        known = {name for some in names.values() for name in some}
        if not wanted <= filters <= known:
            yield f"{host.name} has rules for {sorted(filters)}, guests that run have {sorted(wanted)}, all {sorted(known)}"

    def _domain(self, host: Hypervisor, server: dict[str, Any], row: dict[str, Any]) -> Iterator[str]:
        uuid, status = row["uuid"], server["status"]
        if status == "ERROR":
            return
        job = host.virsh("domjobinfo", uuid, check=False).split()
        if job[:3] != ["Job", "type:", "None"]:
            yield f"{uuid} on {host.name} still has a job: {' '.join(job)}"
        domain = etree.fromstring(host.virsh("dumpxml", uuid).encode())
        size = (int(domain.findtext("vcpu") or 0), int(domain.findtext("memory") or 0) // 1024)
        if size != (row["vcpus"], row["memory_mb"]):
            yield f"{uuid} is {(row['vcpus'], row['memory_mb'])}, its guest {size} (CPUs, MiB)"
        macs = {str(mac.get("address")) for mac in domain.iterfind("devices/interface/mac")}
        wanted = {vif["mac_address"] for vif in row["network_info"] or ()}
        if macs != wanted:
            yield f"{uuid} has the nics {sorted(wanted)}, its guest {sorted(macs)}"
        disks = {pathlib.Path(source.get("file") or source.get("dev") or "") for source in
                 domain.iterfind("devices/disk/source")}
        volumes = {path.stem for path in disks if path.parent == self.cloud.short / "volumes"}
        attached = {d["volume_id"] for d in row["block_devices"] or () if d["destination_type"] == "volume" and d["attached"]}
        if status != "RESCUE" and volumes != attached:
            yield f"{uuid} ({status}) has the volumes {sorted(attached)}, its guest {sorted(volumes)}"
        for path in sorted(disks):
            if path.parent.parent == host.instances.parent and path.parent.name != uuid:
                yield f"the guest of {uuid} has a disk of somebody else: {path}"

    def _qemus(self) -> list[tuple[str, str]]:
        """(uuid of the guest, command line) of each process of QEMU that is of this cloud."""
        found = []
        for words in _commands():
            line, program = " ".join(words), words[0].rpartition("/")[2]
            if program.startswith("qemu-system") and "-uuid" in words and str(self.cloud.short) in line:
                found.append((words[words.index("-uuid") + 1], line))
        return found

    def _processes(self) -> dict[int, str]:
        lines = [" ".join(words) for words in _commands() if words[0].rpartition("/")[2] in _HELPERS]
        return dict(enumerate(line for line in lines if str(self.cloud.short) in line))


def _commands() -> Iterator[list[str]]:
    for line in run("ps", "-e", "-ww", "-o", "args=").splitlines():
        if words := line.split():
            yield words


def _sum(path: pathlib.Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
