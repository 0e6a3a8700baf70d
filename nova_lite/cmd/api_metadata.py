"""nova-lite-api-metadata: the documents for guests at 169.254.169.254. It has no access to the database: it calls the
conductor.
"""
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
