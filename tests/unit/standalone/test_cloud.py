"""The order in which the standalone cloud starts."""
from __future__ import annotations

import threading

from nova_lite import conf as conf_module
from nova_lite.runtime import service
from nova_lite.standalone import options
from nova_lite.standalone.cloud import StandaloneCloud
from nova_lite.virt.fake import FakeDriver
from tests.support.cloud import healthy
from tests.support.process import free_port, wait_for
from tests.unit.db.databases import make_tables


def test_the_api_opens_when_its_host_has_reported(tmp_path, monkeypatch):
    asked, may_answer, inventory = threading.Event(), threading.Event(), FakeDriver.inventory

    def slow_inventory(driver: FakeDriver):
        asked.set()
        may_answer.wait(20)
        return inventory(driver)
    monkeypatch.setattr(FakeDriver, "inventory", slow_inventory)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    conf = conf_module.load(["--state-path", str(tmp_path / "state"), "--virt-driver", "fake", "--port", str(port),
                             "--metadata-port", str(free_port())], config_files=[], cli_opts=options.CLI_OPTS)
    options.apply(conf)
    conf.set_override("connection", make_tables(f"sqlite:///{tmp_path}/cloud"), "database")
    cloud = StandaloneCloud(conf)
    cloud.prepare()
    runner = service.Service("standalone", conf)
    cloud.add_to(runner)
    starter = threading.Thread(target=runner.start)
    starter.start()
    try:
        assert asked.wait(20)
        assert not healthy(url)
        may_answer.set()
        wait_for("the API", lambda: healthy(url))
    finally:
        may_answer.set()
        starter.join()
        runner.stop()
        cloud.stop()
