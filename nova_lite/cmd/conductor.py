"""nova-lite-conductor: owns the actions in flight and writes for the compute hosts."""
from __future__ import annotations

from nova_lite import rpc
from nova_lite.runtime import checks, service


def main() -> int:
    """Run until a signal."""
    return service.main("nova-lite-conductor", _build, workers=lambda conf: conf.conductor.workers,
                        check=(checks.check_database, checks.check_secret_keys, checks.check_broker,
                               checks.check_cloud))


def _build(runner: service.Service) -> None:
    from nova_lite.conductor.manager import ConductorManager

    manager = ConductorManager(runner.conf, runner.transport)
    runner.add_manager(rpc.CONDUCTOR, runner.conf.host, manager)
