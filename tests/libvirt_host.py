"""A private libvirtd for tests: ``with LibvirtHost(directory) as host: host.uri``."""
from __future__ import annotations

import os
import pathlib
import shutil
import tempfile

from nova_lite.virt.libvirt.local_daemon import LocalDaemon


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
        self.daemon.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.daemon.stop()
        if self._short is not None:
            shutil.rmtree(self._short, ignore_errors=True)
