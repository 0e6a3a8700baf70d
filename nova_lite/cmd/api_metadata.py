"""nova-lite-api-metadata: what guests read at 169.254.169.254. It asks the conductor; it knows no database."""
from __future__ import annotations

from nova_lite.runtime import checks, service


def main() -> int:
    """Run until a signal."""
    return service.main("nova-lite-api-metadata", _build, workers=lambda conf: conf.metadata.workers,
                        check=(checks.check_broker,),
                        listen=lambda conf: [(conf.metadata.listen, conf.metadata.port)])


def _build(runner: service.Service) -> None:
    from nova_lite.api import wsgi

    runner.add_wsgi(wsgi.loadapp(runner.conf, "metadata"), runner.conf.metadata.listen, runner.conf.metadata.port)
