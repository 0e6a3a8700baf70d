"""What is in the guests' disks: the file that each guest wrote at its first boot, and the pattern in the walk's volumes.

A guest that runs is asked, with an empty cache, so that it is also seen to run and to be reached. Of all others the disk is
read from outside: a copy, whose journal is replayed as a boot would do it.
"""
from __future__ import annotations

import hashlib
import pathlib
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from nova_lite.db import models
from nova_lite.objects.instance import SHELVED_IMAGE
from tests.chaos.guest_cloud import GuestCloud, kept_sum
from tests.chaos.walk import Walk
from tests.support.process import wait_for
from tests.support.two_hosts import run

_BOOT = 600.0       # seconds until a guest answers, of which several boot at once under emulation
_ASK = "sync; echo 3 > /proc/sys/vm/drop_caches; echo here $(head -n 1 /root/kept) $(sha256sum < /root/kept)"
_ANEW = ("rebuild", "evacuate")


class GuestDisks:
    """``problems`` compares with what was found the last time."""

    def __init__(self, cloud: GuestCloud) -> None:
        self._cloud = cloud
        self._known: dict[str, str] = {}        # server -> when its disk was made

    def problems(self, walk: Walk) -> list[str]:
        """Of a cloud that is otherwise in order."""
        servers = self._cloud.servers()
        with self._cloud.engine.connect() as connection:
            rows = {r["uuid"]: dict(r) for r in connection.execute(sa.select(models.instances).where(
                models.instances.c.deleted == 0)).mappings()}
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda uuid: self._server(walk, servers[uuid], rows[uuid]), sorted(servers)))
        volumes = [f"volume {volume} has lost what was in it" for volume in sorted(self._cloud.written & walk.volumes)
                   if not self._cloud.has_pattern(volume)]
        return [problem for problem in found if problem] + volumes

    def _server(self, walk: Walk, server: dict[str, Any], row: dict[str, Any]) -> str:
        uuid, status = server["id"], server["status"]
        if status == "ERROR":
            return ""
        is_up = self._cloud.hypervisor(row["host"]).guests().get(uuid) == "running" if row["host"] else False
        try:
            born, digest = self._ask(row) if is_up and status != "RESCUE" and row["network_info"] else self._read(row)
        except (AssertionError, subprocess.SubprocessError) as error:
            return f"the disk of {uuid} ({status}) cannot be read: {error}"
        before = self._known.get(uuid)
        if born and digest != kept_sum(born):
            return f"{uuid} ({status}): its file is broken, of {born}: {digest}"
        self._known[uuid] = born
        if not born and is_up and status != "RESCUE" and row["network_info"]:
            return f"{uuid} ({status}) has booted and has no file"
        may_be_new = any(step.server == uuid and step.verb in _ANEW and (step.status is None or step.status < 300)
                         for step in walk.steps)
        if before and before != born and not may_be_new:
            return f"{uuid} ({status}) had a file of {before}, and now one of {born or 'nobody'}"
        return ""

    def _ask(self, row: dict[str, Any]) -> tuple[str, str]:
        addresses = [ip["address"] for vif in row["network_info"] for ip in vif["fixed_ips"]]

        def answer() -> str:
            for address in addresses:
                if said := self._cloud.ssh(self._cloud.key, address, _ASK, timeout=120):
                    return said
            return ""
        words = str(wait_for(f"{row['uuid']} to be reached at {addresses}", answer, _BOOT, 1)).split()
        return (words[1], words[2]) if words[0] == "here" and len(words) > 3 else ("", "")

    def _read(self, row: dict[str, Any]) -> tuple[str, str]:
        path = self._disk(row)
        with tempfile.TemporaryDirectory() as directory:
            copy, kept = pathlib.Path(directory, "copy"), pathlib.Path(directory, "kept")
            run("qemu-img", "convert", "-U", "-O", "raw", path, copy, timeout=300)
            checked = subprocess.run(["e2fsck", "-fy", copy], capture_output=True, text=True, check=False, timeout=120)
            assert checked.returncode in (0, 1), f"{path}: {checked.stdout}{checked.stderr}"
            run("debugfs", "-R", f"dump /root/kept {kept}", copy)
            if not kept.exists() or not kept.stat().st_size:
                return "", ""
            data = kept.read_bytes()
            return data[:36].decode(errors="replace"), hashlib.sha256(data).hexdigest()

    def _disk(self, row: dict[str, Any]) -> pathlib.Path:
        root = next((d for d in row["block_devices"] or () if d["boot_index"] == 0 and d["destination_type"] == "volume"), None)
        if root is not None:
            return self._cloud.volume_file(root["volume_id"])
        if row["host"] is None:
            return self._cloud.image_file(row["system_metadata"][SHELVED_IMAGE])
        return pathlib.Path(self._cloud.hypervisor(row["host"]).instances / row["uuid"] / "disk")
