"""nova-lite-compute for many fake hosts whose messages come over one connection: real managers, real queues.

    python -m benchmarks.fleet.shared_wire --config-file FILE ...

All hosts of ``[fake] hosts`` have the queue of a compute host each, and one connection receives from all of them. Hosts start
one after the other, spread over one report interval: so do their heartbeats. What hosts do by themselves at fixed intervals is
as rare as their reports are.
"""
from __future__ import annotations

import nova_lite.cmd  # noqa: F401  # isort: skip  # chooses the threads of the process, before anything else

import sys
import threading
from collections.abc import Callable
from typing import Any

import oslo_messaging as messaging
from oslo_messaging._drivers import amqpdriver, base
from oslo_messaging.rpc.server import RPCServer

from nova_lite import rpc
from nova_lite.compute import manager as manager_module
from nova_lite.compute.manager import ComputeManager
from nova_lite.runtime import checks, concurrency, service

REPORT = 10     # seconds between two reports in production
FIXED = ("TIDY_INTERVAL", "RULES_INTERVAL", "PLUG_INTERVAL", "WINDOW")      # no option changes them


class _Listener(amqpdriver.RpcAMQPListener):
    """Notes with each message for which host it is."""

    def for_host(self, host: str) -> Callable[[Any], None]:
        def take(message: Any) -> None:
            count = len(self.incoming)
            self(message)
            if len(self.incoming) > count:      # not a duplicate
                self.incoming[-1].for_host = host
        return take


class _Hosts:
    """A dispatcher that asks the one of the host."""

    def __init__(self, managers: dict[str, ComputeManager]) -> None:
        self._of_host = {}
        for host, manager in managers.items():
            for endpoint in manager.endpoints:
                endpoint.target = messaging.Target(version=rpc.VERSION)     # type: ignore[attr-defined]
            self._of_host[host] = messaging.RPCDispatcher(manager.endpoints, rpc.ContextSerializer(), rpc._Exposed)

    def dispatch(self, incoming: Any) -> Any:
        return self._of_host[incoming.for_host].dispatch(incoming)


class _Wire(RPCServer):
    """One connection for the queues of all hosts."""

    def __init__(self, transport: Any, managers: dict[str, ComputeManager]) -> None:
        self._hosts = list(managers)
        super().__init__(transport, messaging.Target(topic=rpc.COMPUTE, version=rpc.VERSION), _Hosts(managers),
                         "eventlet" if concurrency.is_green() else "threading")

    def _create_listener(self) -> Any:
        driver = self.transport._driver
        share = driver.share("server")
        listener = _Listener(driver, share)
        for host in self._hosts:
            share.declare_server_queue(self.conf.rpc.exchange, f"{rpc.COMPUTE}.{host}", listener.for_host(host), of_host=True)
        return base.PollStyleListenerAdapter(listener, 1, None)


def _dilate(factor: float) -> None:
    for name in FIXED:
        setattr(manager_module, name, getattr(manager_module, name) * factor)


class _Fleet:
    """Begins when all else of the process runs, and ends first."""

    port = 0        # none

    def __init__(self, runner: service.Service) -> None:
        self._runner, self._stopping = runner, threading.Event()
        _dilate(runner.conf.compute.report_interval / REPORT)
        self._managers = {host: ComputeManager(runner.conf, runner.transport, host)
                          for host in service.compute_hosts(runner.conf)}
        self._wire = _Wire(runner.transport, self._managers)
        self._starter = threading.Thread(target=self._start_hosts, name="start-hosts", daemon=True)

    def start(self) -> None:
        self._wire.start()
        self._starter.start()

    def _start_hosts(self) -> None:
        pause = self._runner.conf.compute.report_interval / len(self._managers)
        for manager in self._managers.values():
            manager.start()
            for seconds, function in manager.periodics():
                if seconds > 0:
                    self._runner._start_loop(seconds, function)
            if self._stopping.wait(pause):
                return

    def stop(self) -> None:
        self._stopping.set()
        self._starter.join()
        self._wire.stop()
        self._wire.wait()
        for manager in self._managers.values():
            manager.stop()


def main() -> int:
    """Run until a signal."""
    return service.main("nova-lite-compute", lambda runner: runner.add_door(_Fleet(runner)), check=(checks.check_broker,))


if __name__ == "__main__":
    sys.exit(main())
