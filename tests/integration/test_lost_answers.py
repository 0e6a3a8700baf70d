"""A conductor dies while it asks another host: the host that wants to know asks the next conductor."""
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_lite import conf as nova_conf
from nova_lite import rpc
from nova_lite.rpc import conductor as rpcapi
from tests.support.engines import RabbitMQ
from tests.support.process import Process, wait_for

SILENCE = 4.0
CONDUCTOR = textwrap.dedent("""
    import pathlib, sys, time
    from nova_lite import conf, rpc

    class Conductor:
        def ask_other_host(self, context, action_id, owner, question):
            with open(sys.argv[2], "a") as file:
                print(question, file=file)
            time.sleep(float(sys.argv[3]))
            return {"answer": sys.argv[2]}

    transport = rpc.get_transport(conf.load([], config_files=[sys.argv[1]]))
    rpc.get_server(transport, rpc.CONDUCTOR, "one", [Conductor()]).start()
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(600)
""")


@pytest.fixture
def broker(tmp_path):
    made = RabbitMQ(tmp_path / "rabbitmq")
    try:
        yield made.start()
    finally:
        made.close()


def test_a_question_outlives_its_conductor_and_is_asked_once_of_the_next(broker, tmp_path, monkeypatch, caplog):
    """The second conductor needs longer than a silent one is waited for, and says meanwhile that it works."""
    monkeypatch.setattr(rpcapi, "TIMEOUT", SILENCE)
    monkeypatch.setenv("NOVA_LITE_CONCURRENCY", "threading")
    config = tmp_path / "conf"
    config.write_text(f"[DEFAULT]\ntransport_url = {broker.url}\n")

    def start(name, seconds):
        asked = tmp_path / name
        process = Process(name, [sys.executable, "-c", CONDUCTOR, str(config), str(asked), str(seconds)], tmp_path).start()
        wait_for(name, asked.exists, 60)
        return process, asked

    transport = rpc.get_transport(nova_conf.load([], config_files=[str(config)]))
    first, asked_first = start("first", 600)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(rpcapi.ConductorAPI(transport).ask_other_host, 1, "owner", "holds")
        wait_for("the question", lambda: asked_first.read_text() == "holds\n", 60)
        first.kill()
        second, asked_second = start("second", 3 * SILENCE)
        try:
            assert answer.result(120) == str(asked_second)
        finally:
            second.kill()
    assert asked_second.read_text() == "holds\n"
    assert f"did not answer ask_other_host within {SILENCE} s" in caplog.text
    transport.cleanup()
