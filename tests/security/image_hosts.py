"""Hosts of the libvirt driver for tests of hostile images and disks. Files and qemu-img are real. libvirt's test driver takes
the place of a hypervisor, so that no guest boots."""
from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import shutil
import struct
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import nova_lite.conf
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.virt.driver import GuestFiles
from nova_lite.virt.libvirt.driver import LibvirtDriver
from nova_lite.virt.libvirt.files import GuestDirectory, instances_root
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_config import HostFacts
from nova_lite.virt.libvirt.host import Host

MIB = 1 << 20
NO_FILES = GuestFiles(metadata={})
_NUMBERS = itertools.count(1)
SECRET = b"what nobody but its owner may read\n" * 4000


class Hosts:
    """Makes drivers of hosts, each with a directory of its own."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self._started: list[LibvirtDriver] = []

    def start(self, name: str = "one", **options: Any) -> LibvirtDriver:
        """One that finds what an earlier one of this name has left."""
        conf = nova_lite.conf.load([], config_files=[], **{
            "state_path": str(self._root / name), "my_ip": "127.0.0.1", "libvirt__connection_uri": "test:///default",
            **options})
        made = LibvirtDriver(conf, name)
        made.init_host(lambda _uuid, _state: None)
        self._started.append(made)
        return made

    def own_libvirt(self, name: str) -> str:
        """The URI of a libvirt that knows none of the guests of other hosts."""
        path = self._root / f"{name}.xml"
        path.write_text("<node/>")
        return f"test://{path}"

    def files(self, name: str, server: Instance) -> GuestDirectory:
        """What the host has of the server."""
        return GuestDirectory(self._root / name / "instances", server.uuid)

    def stop(self) -> None:
        """Stop all drivers and remove their guests: the connections of one process to ``test:///default`` share its guests."""
        import libvirt
        connection = libvirt.open("test:///default")
        for domain in connection.listAllDomains():
            if domain.name().startswith("instance-"):
                if domain.isActive():
                    domain.destroy()
                if domain.isPersistent():
                    domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
                                         | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA)
        connection.close()
        for driver in self._started:
            driver.stop_host()


@contextlib.contextmanager
def hosts(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """libvirt's test driver cannot say what guests may have, and starts none paused."""
    monkeypatch.setattr(Host, "_facts", lambda self, conf: HostFacts("qemu"))
    monkeypatch.setattr(Guest, "start", lambda self, paused=False, start=Guest.start: start(self))
    made = Hosts(root)
    try:
        yield made
    finally:
        made.stop()


def server(image: ImageMeta, host: str = "one", root_gb: int = 1, **values: Any) -> Instance:
    """A server of this image."""
    return Instance(**{"uuid": str(uuid.uuid4()), "id": next(_NUMBERS), "project_id": "p", "user_id": "u", "display_name": "s",
                       "host": host, "flavor": Flavor("1", "tiny", 64, 1, root_gb), "image_ref": image.id, "image": image,
                       **values})


def image(disk_format: str = "raw", **values: Any) -> ImageMeta:
    """The record of an image."""
    return ImageMeta(str(uuid.uuid4()), disk_format=disk_format, **values)


def fetching(path: pathlib.Path) -> Any:
    """A Fetcher that copies this file, whatever it is asked for."""
    return lambda _image_id, target: shutil.copyfile(path, target)


def overlay(backing: str | os.PathLike[str], size: int = MIB) -> bytes:
    """A qcow2 file that stands on another one, as a guest may write it to its disk."""
    name = os.fsencode(backing)
    header = b"QFI\xfb" + struct.pack(">IQIIQIIQQIIQ", 2, 512, len(name), 16, size, 0, 1, 65536, 0, 0, 0, 0)
    return (header.ljust(512, b"\0") + name).ljust(2 * 65536, b"\0")


def shows_secret(path: pathlib.Path, disk_format: str, directory: pathlib.Path) -> bool:
    """Whether a guest reads SECRET from the beginning of a disk; one that cannot be opened shows nothing."""
    out = directory / "shown"
    out.unlink(missing_ok=True)
    subprocess.run(["qemu-img", "dd", "-f", disk_format, "-O", "raw", "bs=1M", "count=1", f"if={path}", f"of={out}"],
                   check=False, capture_output=True)
    return out.exists() and SECRET[:20] in out.read_bytes()


def bases(driver: LibvirtDriver) -> pathlib.Path:
    """The host's cache of images."""
    return instances_root(driver._conf) / "_base"
