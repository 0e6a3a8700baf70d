"""nova-lite-compute: drives the hypervisor of this host. It knows the broker, never the database."""
from __future__ import annotations

from nova_lite import rpc
from nova_lite.runtime import checks, service


def main() -> int:
    """Run until a signal."""
    return service.main("nova-lite-compute", _build, check=(checks.check_broker,))


def _build(runner: service.Service) -> None:
    from nova_lite.compute.manager import ComputeManager
    from nova_lite.rpc import rabbit

    hosts = service.compute_hosts(runner.conf)
    rabbit.use_few_connections(runner.conf, len(hosts))
    transport = runner.transport
    for host in hosts:
        runner.add_manager(rpc.COMPUTE, host, ComputeManager(runner.conf, transport, host))
