"""A service for the tests of service.py and launcher.py: a page, a slow page, a loop that fails, a manager that drains."""
import nova_lite.cmd  # noqa: F401, I001  chooses the threads, as in every console script
import logging
import os
import sys
import time

from oslo_log import log

from nova_lite import rpc
from nova_lite.runtime import checks, service
from nova_lite.context import RequestContext

LOG = log.getLogger("nova_lite.echo")
UUID = "6f70656e-7374-4163-8b21-6e6f76616c69"


class Manager:
    endpoints: list = []

    def start(self) -> None:
        LOG.info("manager started")

    def stop(self) -> None:
        time.sleep(float(os.environ.get("ECHO_DRAIN", "0")))
        LOG.info("manager drained after %d beats", self.beats)

    beats = 0

    def periodics(self) -> list:
        return [(0.1, self.beat), (0.1, self.broken), (0, self.never)]

    def beat(self) -> None:
        self.beats += 1
        if self.beats == 3:
            LOG.info("three beats", extra={"instance_uuid": UUID})

    def broken(self) -> None:
        if "ECHO_BROKEN" in os.environ:
            raise RuntimeError("this loop fails")

    def never(self) -> None:
        LOG.error("a loop of 0 seconds ran")


def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/slow":
        time.sleep(2)
    if path == "/die-while-logging":
        logging.getLogger().handlers[0].acquire()
        os._exit(9)
    if path == "/log":
        RequestContext(request_id="req-11111111-2222-3333-4444-555555555555", global_request_id="req-global")
        LOG.info("about a server", extra={"instance_uuid": UUID})
        LOG.debug("only with debug")
    body = f"{os.getpid()} {environ['wsgi.url_scheme']} {path}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def build(runner: service.Service) -> None:
    conf = runner.conf
    runner.add_manager(rpc.CONDUCTOR, "echo", Manager())
    runner.add_wsgi(app, conf.api.listen, conf.api.port, conf.api.tls_cert_file, conf.api.tls_key_file)


if __name__ == "__main__":
    sys.exit(service.main("echo", build, workers=lambda conf: conf.api.workers, check=(checks.check_broker,),
                          listen=lambda conf: [(conf.api.listen, conf.api.port)]))
