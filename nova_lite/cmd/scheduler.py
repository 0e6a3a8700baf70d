"""nova-lite-scheduler: finds hosts and claims room on them."""
from __future__ import annotations

from nova_lite import rpc
from nova_lite.runtime import checks, service


def main() -> int:
    """Run until a signal."""
    return service.main("nova-lite-scheduler", _build, workers=lambda conf: conf.scheduler.workers,
                        check=(checks.check_database, checks.check_broker, checks.check_cloud))


def _build(runner: service.Service) -> None:
    from nova_lite.scheduler.manager import SchedulerManager

    manager = SchedulerManager(runner.conf, runner.transport)
    runner.add_manager(rpc.SCHEDULER, runner.conf.host, manager)
