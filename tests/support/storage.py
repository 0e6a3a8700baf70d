"""Storage backends in userspace: an iSCSI target with CHAP (tgt) and an NBD server (qemu-nbd)."""
from __future__ import annotations

import os
import pathlib
import random
import shutil
import socket
import subprocess
from typing import Any

from nova_lite.virt.libvirt.config import Auth, Disk, NetworkSource
from tests.support.process import free_port, wait_for

PROGRAMS = ("tgtd", "tgtadm", "qemu-nbd")
_WITH_US = ("setpriv", "--pdeathsig", "KILL")      # what a killed test run starts ends with it
PASSWORD = "chap-secret-12"


def missing() -> str:
    """What is not installed; empty: nothing."""
    return ", ".join(p for p in PROGRAMS if not shutil.which(p))


class IscsiTarget:
    """tgtd; each file that it exports is a target of its own, which asks for a password."""

    def __init__(self) -> None:
        self.port, self._control = free_port(), str(random.randint(1000, 30000))
        os.makedirs("/run/tgtd", exist_ok=True)
        portal = f"portal=127.0.0.1:{self.port}"
        self._process = subprocess.Popen([*_WITH_US, "tgtd", "-f", "-C", self._control, "--iscsi", portal],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("tgtd", lambda: self._tell("--op", "show", "--mode", "sys").returncode == 0)
        self._tell("--op", "new", "--mode", "account", "--user", "chap-user", "--password", PASSWORD)
        self._targets = 0

    def export(self, path: pathlib.Path) -> dict[str, Any]:
        """connection_info of a raw file, as Cinder gives it."""
        self._targets += 1
        number, name = str(self._targets), f"iqn.2010-10.org.openstack:volume-{path.name}"
        for words in (["--op", "new", "--mode", "target", "-T", name],
                      ["--op", "new", "--mode", "logicalunit", "--lun", "1", "-b", str(path)],
                      ["--op", "bind", "--mode", "account", "--user", "chap-user"],
                      ["--op", "bind", "--mode", "target", "-I", "ALL"]):
            done = self._tell(*words, "--tid", number)
            assert done.returncode == 0, done.stderr
        return {"driver_volume_type": "iscsi", "data": {
            "target_discovered": False, "target_portal": f"127.0.0.1:{self.port}", "target_iqn": name, "target_lun": 1,
            "auth_method": "CHAP", "auth_username": "chap-user", "auth_password": PASSWORD}}

    def sessions(self) -> str:
        """What tgtd says of its targets and who is logged in."""
        return self._tell("--op", "show", "--mode", "target").stdout

    def stop(self) -> None:
        self._process.kill()        # it does not end on SIGTERM as long as it has targets
        self._process.wait()

    def _tell(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["tgtadm", "-C", self._control, "--lld", "iscsi", *words], capture_output=True, text=True,
                              check=False)


class NbdServer:
    """One export. ``host``: the address of this machine that clients are told."""

    def __init__(self, path: pathlib.Path, form: str = "raw", host: str = "127.0.0.1") -> None:
        self.port = free_port()
        listen = host if host == "127.0.0.1" else "0.0.0.0"     # noqa: S104
        self._process = subprocess.Popen([*_WITH_US, "qemu-nbd", "-f", form, "-b", listen, "-p", str(self.port), "-t",
                                          "--shared=4", "-x", path.name, str(path)])
        wait_for("qemu-nbd", self._listens)
        self.connection_info = {"driver_volume_type": "nbd", "data": {"host": host, "port": self.port,
                                                                      "export": path.name}}

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def iscsi_disk(info: dict[str, Any]) -> Disk:
    """The disk of a guest for an exported file."""
    data = info["data"]
    host, port = data["target_portal"].split(":")
    name = f"{data['target_iqn']}/{data['target_lun']}"
    return Disk("", "vdb", network=NetworkSource("iscsi", name, ((host, port),), Auth(data["auth_username"], "iscsi", "")))


class Luks:
    """Volumes encrypted with one passphrase, as their back end makes them, and what they hold."""

    def __init__(self, directory: pathlib.Path, passphrase: str) -> None:
        self._secret = directory / "passphrase"
        self._secret.write_text(passphrase)

    def make(self, source: pathlib.Path | str, form: str, path: pathlib.Path) -> pathlib.Path:
        """A new file with the data of another; quick to open."""
        for attempt in range(50):           # QEMU cannot always measure a busy machine (nova_lite/virt/libvirt/luks.py)
            try:
                self._run("convert", "-f", form, "-O", "luks", "-o", "key-secret=s,iter-time=10", str(source), str(path))
                break
            except subprocess.CalledProcessError:
                if attempt == 49:
                    raise
        return path

    def read(self, path: pathlib.Path) -> bytes:
        """The first mebibyte of what is encrypted; it may be in use."""
        clear = path.with_suffix(".clear")
        self._run("dd", "-U", "--image-opts", "-O", "raw", "bs=1M", "count=1",
                  f"if=driver=luks,key-secret=s,file.driver=file,file.filename={path}", f"of={clear}")
        found = clear.read_bytes()
        clear.unlink()
        return found

    def _run(self, verb: str, *words: str) -> None:
        subprocess.run(["qemu-img", verb, "--object", f"secret,id=s,file={self._secret}", *words], check=True)
