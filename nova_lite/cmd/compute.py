"""nova-lite-compute: drives the hypervisor of this host. It knows the broker, never the database."""
from __future__ import annotations

from nova_lite import rpc
from nova_lite.runtime import checks, service


def main() -> int:
    """Run until a signal."""
    return service.main("nova-lite-compute", _build, check=(checks.check_broker,))


def _build(runner: service.Service) -> None:
    from nova_lite.compute.manager import ComputeManager

    transport = runner.transport
    for host in service.compute_hosts(runner.conf):
        runner.add_manager(rpc.COMPUTE, host, ComputeManager(runner.conf, transport, host))
