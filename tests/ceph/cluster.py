"""A Ceph cluster of one monitor, one manager and one OSD on this machine, with cephx; its data is one sparse file."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import uuid
from typing import Any

from tests.support.process import Process, free_port, wait_for

PROGRAMS = ("ceph", "rbd", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-authtool", "monmaptool")
BLOCK = pathlib.Path("/usr/lib", f"{os.uname().machine}-linux-gnu", "qemu", "block-rbd.so")
SIZE = 12 << 30
_CONF = """\
[global]
fsid = {fsid}
mon_host = [v2:{address}:{v2},v1:{address}:{v1}]
public_network = {address}/32
public_addr = {address}
cluster_addr = {address}
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 2
mon_data_avail_crit = 1
mon_data = {state}/mon
mgr_data = {state}/mgr
osd_data = {state}/osd
keyring = {state}/$name.keyring
run_dir = {state}
admin_socket = {state}/$name.asok
log_file = {state}/$name.log
osd_objectstore = bluestore
bluestore_block_size = {size}
bluestore_cache_autotune = false
bluestore_cache_size = 67108864
osd_memory_target = 939524096
mgr_initial_modules =
"""


def missing() -> str:
    """What keeps a cluster from being started here; empty: nothing."""
    if os.geteuid() != 0:
        return "needs root"
    found = [program for program in PROGRAMS if not shutil.which(program)]
    found += [] if BLOCK.exists() else ["QEMU's driver for rbd (Debian: qemu-block-extra)"]
    return f"not installed: {', '.join(found)} (make ceph-test installs it)" if found else ""


class Ceph:
    """``with Ceph(directory) as ceph``; the path of the directory is short (sockets), ``address`` is one of this machine."""

    def __init__(self, directory: pathlib.Path, address: str = "127.0.0.1") -> None:
        self.directory, self.conf, self._address = directory, directory / "ceph.conf", address
        self.fsid = str(uuid.uuid4())
        self.key = ""
        self._daemons: list[Process] = []

    def __enter__(self) -> Ceph:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        for daemon in reversed(self._daemons):
            if daemon.alive():
                daemon.kill(signal.SIGTERM if daemon.name == "mon" else signal.SIGKILL)

    def run(self, *command: str) -> str:
        """The output of a program as the cluster's admin."""
        done = subprocess.run([command[0], "-c", str(self.conf), *command[1:]], capture_output=True, text=True, check=False,
                              timeout=120)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def make_pool(self, name: str) -> None:
        """For images."""
        self.run("ceph", "osd", "pool", "create", name, "8")
        self.run("rbd", "pool", "init", name)

    def make_user(self, name: str, *capabilities: str) -> str:
        """``client.<name>``, its keyring beside ceph.conf; its key."""
        path = self.directory / f"client.{name}.keyring"
        self.run("ceph", "auth", "get-or-create", f"client.{name}", *capabilities, "-o", str(path))
        return self.run("ceph", "auth", "print-key", f"client.{name}").strip()

    def give_key(self, libvirt_uri: str, key: str, secret: str = "") -> str:
        """Let a libvirt keep a user's key; the uuid of its secret."""
        secret = secret or str(uuid.uuid4())
        xml, value = self.directory / f"{secret}.xml", self.directory / f"{secret}.key"
        xml.write_text(f"<secret ephemeral='no' private='yes'><uuid>{secret}</uuid>"
                       f"<usage type='ceph'><name>{secret}</name></usage></secret>")
        value.write_text(key)
        self._tool("virsh", "-c", libvirt_uri, "secret-define", str(xml))
        self._tool("virsh", "-c", libvirt_uri, "secret-set-value", secret, "--file", str(value))
        return secret

    def images(self, pool: str) -> list[str]:
        """Their names."""
        return sorted(json.loads(self.run("rbd", "ls", pool, "--format", "json")))

    def remove(self, pool: str, image: str) -> None:
        """With its snapshots; also one that is only half there."""
        subprocess.run(["rbd", "-c", str(self.conf), "snap", "purge", f"{pool}/{image}"], capture_output=True, check=False)
        self.run("rbd", "rm", f"{pool}/{image}")

    def json(self, *command: str) -> Any:
        """What a program answers."""
        return json.loads(self.run(*command, "--format", "json"))

    def _start(self) -> None:
        state, ports = self.directory, (free_port(), free_port())
        self.conf.write_text(_CONF.format(fsid=self.fsid, v2=ports[0], v1=ports[1], address=self._address, state=state,
                                          size=SIZE))
        address = f"[v2:{self._address}:{ports[0]},v1:{self._address}:{ports[1]}]"
        keyring, admin = str(state / "mon.keyring"), str(state / "client.admin.keyring")
        self._tool("ceph-authtool", "-C", admin, "--gen-key", "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd",
                   "allow *", "--cap", "mgr", "allow *")
        self._tool("ceph-authtool", "-C", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self._tool("ceph-authtool", keyring, "--import-keyring", admin)
        self._tool("monmaptool", "--create", "--addv", "a", address, "--fsid", self.fsid, str(state / "monmap"))
        for name in ("mon", "mgr", "osd"):
            (state / name).mkdir()
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(state / "monmap"), "--keyring", keyring)
        self._daemon("mon", "ceph-mon", "-f", "-i", "a", "--keyring", keyring)
        wait_for("the monitor", lambda: self._try("ceph", "--connect-timeout", "5", "mon", "stat"), 60)
        self.run("ceph", "config", "set", "mon", "auth_allow_insecure_global_id_reclaim", "false")
        self.run("ceph", "auth", "get-or-create", "mgr.x", "mon", "allow profile mgr", "osd", "allow *", "mds", "allow *", "-o",
                 str(state / "mgr.x.keyring"))
        self._daemon("mgr", "ceph-mgr", "-f", "-i", "x")
        osd = str(uuid.uuid4())
        self.run("ceph", "osd", "new", osd)
        self.run("ceph", "auth", "get-or-create", "osd.0", "mon", "allow profile osd", "mgr", "allow profile osd", "osd",
                 "allow *", "-o", str(state / "osd.0.keyring"))
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._daemon("osd", "ceph-osd", "-f", "-i", "0")
        wait_for("the OSD", lambda: " 1 up" in self.run("ceph", "osd", "stat"), 120)

    def _daemon(self, name: str, *command: str) -> None:
        self._daemons.append(Process(name, [command[0], "-c", str(self.conf), *command[1:]], self.directory).start())

    def _try(self, *command: str) -> bool:
        assert self._daemons[0].alive(), self._daemons[0].tail()
        done = subprocess.run([command[0], "-c", str(self.conf), *command[1:]], capture_output=True, check=False)
        return done.returncode == 0

    @staticmethod
    def _tool(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)
