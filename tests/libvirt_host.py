"""A private libvirtd for tests: ``with LibvirtHost(directory) as host: host.uri``."""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping

from oslo_config import cfg

from nova_lite.virt import driver as virt_driver
from nova_lite.virt.driver import ComputeDriver
from nova_lite.virt.libvirt.local_daemon import LocalDaemon
from tests.guest import cache_directory

_CAPABILITIES = pathlib.Path("cache", "qemu", "capabilities")


class LibvirtHost:
    """Starts the daemon on entering; ends it and all its guests on leaving."""

    def __init__(self, state_dir: str | os.PathLike[str], hostname: str = "", netns: str = "") -> None:
        self.directory = pathlib.Path(state_dir)
        self._short: str | None = None
        if len(str(self.directory)) > 80:       # a socket's path has 107 characters at most
            self._short = tempfile.mkdtemp(prefix="libvirt-")
            self.directory = pathlib.Path(self._short)
        self.daemon = LocalDaemon(self.directory, hostname, netns)
        self.uri = self.daemon.uri

    def __enter__(self) -> LibvirtHost:
        give_capabilities(self.directory)
        self.daemon.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.daemon.stop()
        keep_capabilities(self.directory)
        if self._short is not None:
            shutil.rmtree(self._short, ignore_errors=True)


@contextlib.contextmanager
def started(confs: Mapping[str, cfg.ConfigOpts]) -> Iterator[list[ComputeDriver]]:
    """The drivers of hosts, by their names."""
    made: list[ComputeDriver] = []
    try:
        for name, conf in confs.items():
            made.append(virt_driver.load(conf, name))
            made[-1].init_host(lambda *_: None)
        yield made
    finally:
        for one in made:
            one.stop_host()


def kill_libvirtd(daemon: LocalDaemon) -> None:
    """SIGKILL of libvirtd alone: guests, and virtlogd, which writes down what they say, go on."""
    pid = daemon.pid("libvirtd")
    assert pid is not None, "libvirtd does not run"
    os.kill(pid, signal.SIGKILL)


def give_capabilities(directory: pathlib.Path) -> None:
    """A new daemon asks QEMU for ten seconds what it can do, almost all of them asleep. It gets what an earlier one has written
    down, and decides by itself whether that is still true: it looks at QEMU, kernel, processor, user and its own version."""
    if _kept().is_dir():
        shutil.copytree(_kept(), directory / _CAPABILITIES, dirs_exist_ok=True)


def keep_capabilities(directory: pathlib.Path) -> None:
    """For the daemons after this one."""
    _kept().mkdir(parents=True, exist_ok=True)
    for path in (directory / _CAPABILITIES).glob("*.xml"):
        partial = pathlib.Path(shutil.copy2(path, _kept().parent / f"{path.name}.{os.getpid()}"))
        partial.replace(_kept() / path.name)


def _kept() -> pathlib.Path:
    return cache_directory() / "qemu-capabilities"
