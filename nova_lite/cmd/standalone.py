"""nova-lite-standalone: the whole cloud in one process."""
from __future__ import annotations

import os
import sys
import threading

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.runtime import log as log_setup
from nova_lite.runtime import service
from nova_lite.standalone import options

NAME = "nova-lite-standalone"
LOG = log.getLogger(__name__)


def main() -> int:
    """Run until a signal; the exit status."""
    return service.run(NAME, _main)


def _main() -> int:
    conf = service.load(NAME, cli_opts=options.CLI_OPTS, logging=False)
    options.apply(conf)
    os.makedirs(conf.state_path, exist_ok=True)
    log_setup.setup(conf)
    from nova_lite.standalone.cloud import StandaloneCloud

    _say(f"Preparing the cloud in {conf.state_path} ...")
    cloud = StandaloneCloud(conf)
    cloud.prepare()

    def build(runner: service.Service) -> None:
        cloud.add_to(runner)
        threading.Thread(target=_greet, args=(conf,), name="greeting", daemon=True).start()
    try:
        return service.serve(conf, NAME, build)
    finally:
        cloud.stop()


def _greet(conf: cfg.ConfigOpts) -> None:
    from nova_lite.standalone import demo

    demo.wait_until_it_answers(conf)
    _say(f"The cloud answers at {demo.base_url(conf)}/ ; clouds.yaml: {conf.state_path}/clouds.yaml "
         "(clouds nova-lite and nova-lite-demo)")
    if not conf.standalone_demo:
        return
    try:
        demo.run(conf, _say)
    except exception.NovaLiteError as error:
        LOG.exception("the demo guest did not come up")
        _say(f"The demo guest did not come up: {error}. The cloud keeps running; see its log.")


def _say(text: str) -> None:
    print(text, file=sys.stdout, flush=True)
