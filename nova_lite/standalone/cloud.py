"""The whole cloud in one process: every manager, the APIs and the metadata service on SQLite and the in-memory transport."""
from __future__ import annotations

import fcntl
import os
import pathlib
import time
from collections.abc import Sequence
from typing import IO, Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, rpc
from nova_lite.api import wsgi as api_wsgi
from nova_lite.compute.manager import ComputeManager
from nova_lite.conductor.manager import ConductorManager
from nova_lite.console import services as console_services
from nova_lite.db.core import Database
from nova_lite.runtime import service
from nova_lite.scheduler.manager import SchedulerManager
from nova_lite.standalone import seed

LOG = log.getLogger(__name__)
FIRST_REPORT_SECONDS = 30.0     # for which the API waits for the reports of the compute hosts


class StandaloneCloud:
    """Owns the state directory (one cloud at a time) and, with libvirt, the daemon that it had to start."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf
        self._lock: IO[str] | None = None
        self._daemon: Any = None

    def prepare(self) -> None:
        """Directory, lock, hypervisor, schema and first contents. Raises ConfigError when another cloud runs here."""
        state = pathlib.Path(self.conf.state_path)
        state.mkdir(parents=True, exist_ok=True)
        os.chmod(state, 0o711)      # noqa: S103  qemu passes through to the disks; names inside are private
        for name in ("nova_lite.sqlite", "nova-lite.log"):
            (state / name).touch(mode=0o600)
            (state / name).chmod(0o600)
        self._lock = open(state / "lock", "w")      # noqa: SIM115  held as long as the process lives
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise exception.ConfigError(reason=f"another nova-lite-standalone runs on {state}") from None
        if self.conf.compute.driver == "libvirt":
            self._start_hypervisor()
        seed.seed(self.conf, Database(self.conf), self.conf.standalone_image)

    def _start_hypervisor(self) -> None:
        from nova_lite.virt.libvirt import local_daemon

        self._daemon = local_daemon.ensure(self.conf)

    def add_to(self, runner: service.Service) -> None:
        """Hang everything into the process's service."""
        host, transport = self.conf.host, runner.transport
        runner.add_manager(rpc.CONDUCTOR, host, ConductorManager(self.conf, transport))
        runner.add_manager(rpc.SCHEDULER, host, SchedulerManager(self.conf, transport))
        computes = [ComputeManager(self.conf, transport, name) for name in service.compute_hosts(self.conf)]
        for compute in computes:
            runner.add_manager(rpc.COMPUTE, compute.host.name, compute)
        runner.add_door(_FirstReports(computes))
        runner.add_wsgi(api_wsgi.loadapp(self.conf, "compute"), self.conf.api.listen, self.conf.api.port,
                        self.conf.api.tls_cert_file, self.conf.api.tls_key_file)
        runner.add_wsgi(api_wsgi.loadapp(self.conf, "metadata"), self.conf.metadata.listen, self.conf.metadata.port)
        if self.conf.standalone_console_port:
            console_services.NOVNC.add_to(runner)

    def stop(self) -> None:
        """After the services have stopped: the guests run on, and so does the daemon that holds them."""
        if self._lock is not None:
            self._lock.close()


class _FirstReports:
    """A door before the API's: it opens when the compute hosts have reported. A client that boots a server as soon as the API
    answers would find no host before that."""

    port = 0

    def __init__(self, computes: Sequence[ComputeManager]) -> None:
        self._computes = computes

    def start(self) -> None:
        """Wait for the reports. A hypervisor that does not answer keeps the API closed for FIRST_REPORT_SECONDS only."""
        deadline = time.monotonic() + FIRST_REPORT_SECONDS
        for compute in self._computes:
            if not compute.reported.wait(max(0.0, deadline - time.monotonic())):
                LOG.warning("the compute host %s has not reported yet; no server can be built there", compute.host.name)

    def stop(self) -> None:
        """Nothing is open."""
