"""nova-lite-api: the compute API."""
from __future__ import annotations

from nova_lite.runtime import checks, service


def main() -> int:
    """Run until a signal."""
    return service.main("nova-lite-api", _build, workers=lambda conf: conf.api.workers,
                        check=(checks.check_database, checks.check_secret_keys, checks.check_broker,
                               checks.check_cloud),
                        listen=lambda conf: [(conf.api.listen, conf.api.port)])


def _build(runner: service.Service) -> None:
    from nova_lite.api import wsgi

    conf = runner.conf
    runner.add_wsgi(wsgi.loadapp(conf, "compute"), conf.api.listen, conf.api.port, conf.api.tls_cert_file,
                    conf.api.tls_key_file)
