"""Processes as they are run: threads green and native, one worker and several, signals, TLS, logs."""
from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
import requests

from nova_lite import conf as conf_module
from nova_lite.runtime import service
from tests.support.process import Process, free_port, wait_for

ROOT = pathlib.Path(__file__).parents[3]
MODES = ["eventlet", "threading"]
UUID = "6f70656e-7374-4163-8b21-6e6f76616c69"      # as in echo_service, which would turn this process green if imported


class Echo:
    """The echo service in a process of its own."""

    def __init__(self, directory: pathlib.Path, mode: str, workers: int = 1, env: dict[str, str] | None = None,
                 extra: str = "", default: str = "") -> None:
        self.port, self.workers = free_port(), workers
        self.config = directory / "echo.conf"
        self.text = (f"[DEFAULT]\ntransport_url = fake://\n{default}\n[api]\nlisten = 127.0.0.1\nport = {self.port}\n"
                     f"workers = {workers}\n{extra}\n")
        self.config.write_text(self.text)
        self.url = f"{'https' if 'tls' in extra else 'http'}://127.0.0.1:{self.port}"
        self.process = Process("echo", [sys.executable, "-m", "tests.support.echo_service", "--config-file",
                                        str(self.config)], directory,
                               {"NOVA_LITE_CONCURRENCY": mode, "PYTHONPATH": str(ROOT), **(env or {})})

    def __enter__(self) -> Echo:
        self.process.start()
        wait_for("the echo service", self.ready, 30)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.alive():
            self.process.kill(signal.SIGKILL)

    def ready(self) -> bool:
        assert self.process.alive(), self.log()
        return self.log().count("is ready") >= self.workers

    def get(self, path: str, **options: object) -> requests.Response:
        return requests.get(self.url + path, timeout=10, **options)  # type: ignore[arg-type]

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)       # as an operator does: to the first process only

    def log(self) -> str:
        return self.process.log.read_text() if self.process.log.exists() else ""

    def wait_log(self, pattern: str, count: int = 1) -> None:
        wait_for(f"{pattern!r} in\n{self.log()}", lambda: len(re.findall(pattern, self.log())) >= count, 15)

    def stop(self, timeout: float = 40) -> int:
        self.send(signal.SIGTERM)
        assert self.process.popen is not None
        return self.process.popen.wait(timeout)


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def workers(request):
    return request.param


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", directory / "key.pem", "-out",
                    directory / "cert.pem"], check=True, capture_output=True)
    return directory


def test_stop_finishes_requests_in_flight(tmp_path, mode, workers):
    with Echo(tmp_path, mode, workers) as echo:
        answers = []
        idle = requests.Session()
        assert idle.get(echo.url + "/", timeout=5).ok      # its connection stays open and must not hold up the stop
        thread = threading.Thread(target=lambda: answers.append(echo.get("/slow")))
        thread.start()
        time.sleep(0.5)
        assert echo.stop() == 0, echo.log()
        thread.join()
        assert [a.status_code for a in answers] == [200]
        with pytest.raises(requests.ConnectionError):
            echo.get("/")
        assert echo.log().count("manager drained") == workers
        assert "Traceback" not in echo.log()


def test_loops_survive_their_errors(tmp_path, mode):
    with Echo(tmp_path, mode, env={"ECHO_BROKEN": "1"}) as echo:
        echo.wait_log(r"Manager.broken failed; it runs again in \d\.\d s", 3)
        echo.wait_log("three beats")
        assert "a loop of 0 seconds ran" not in echo.log()


def test_loops_run_while_the_manager_drains(tmp_path, mode):
    """The heartbeats renew the leases of what is being finished."""
    with Echo(tmp_path, mode, env={"ECHO_DRAIN": "1"}) as echo:
        started = time.monotonic()
        assert echo.stop() == 0
        assert time.monotonic() - started > 1
        match = re.search(r"manager drained after (\d+) beats", echo.log())
        assert match is not None
        assert int(match[1]) > 8


def test_stop_is_bounded(tmp_path, mode):
    with Echo(tmp_path, mode, env={"ECHO_DRAIN": "60"}, default="graceful_shutdown_timeout = 2") as echo:
        assert echo.stop() == 1
        assert "not all work was done within graceful_shutdown_timeout" in echo.log()


def test_second_signal_stops_at_once(tmp_path, mode, workers):
    with Echo(tmp_path, mode, workers, env={"ECHO_DRAIN": "60"}) as echo:
        echo.send(signal.SIGTERM)
        echo.wait_log("is stopping", workers)
        assert echo.stop(10) == 1


def test_workers_share_the_port_and_are_replaced(tmp_path, mode):
    with Echo(tmp_path, mode, 2) as echo:
        echo.wait_log("is ready", 2)
        children = pathlib.Path(f"/proc/{echo.process.pid}/task/{echo.process.pid}/children")
        before = set(children.read_text().split())
        assert len(before) == 2
        served = {echo.get("/").text.split()[0] for _ in range(60)}
        assert served <= before
        victim = min(before)
        os.kill(int(victim), signal.SIGKILL)
        wait_for("a new worker", lambda: len(set(children.read_text().split()) - {victim}) == 2, 15)
        echo.wait_log("is ready", 3)
        assert echo.get("/").ok
        assert echo.stop() == 0


def test_a_worker_that_is_killed_while_it_logs_silences_no_other(tmp_path, mode):
    with Echo(tmp_path, mode, 2) as echo:
        echo.wait_log("is ready", 2)
        with pytest.raises(requests.ConnectionError):
            echo.get("/die-while-logging")
        echo.wait_log("ended with status 9")        # the parent says so
        echo.wait_log("is ready", 3)                # the worker that takes its place
        assert echo.stop() == 0, echo.log()
        assert echo.log().count("has stopped") == 2


def test_workers_end_with_their_parent(tmp_path, mode):
    with Echo(tmp_path, mode, 2) as echo:
        echo.wait_log("is ready", 2)
        children = pathlib.Path(f"/proc/{echo.process.pid}/task/{echo.process.pid}/children").read_text().split()
        echo.send(signal.SIGKILL)
        echo.process.popen.wait()
        wait_for("the workers to end", lambda: not any(_runs(pid) for pid in children), 20)


def _runs(pid: str) -> bool:
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_sighup_changes_log_levels(tmp_path, mode, workers):
    with Echo(tmp_path, mode, workers) as echo:
        echo.wait_log("is ready", workers)
        echo.get("/log")
        assert "only with debug" not in echo.log()
        echo.config.write_text(echo.text.replace("[DEFAULT]", "[DEFAULT]\ndebug = true"))
        echo.send(signal.SIGHUP)
        echo.wait_log("the configuration was read again; changed: DEFAULT.debug", workers)
        echo.get("/log")
        echo.wait_log("only with debug")
        echo.config.write_text("not a configuration")
        echo.send(signal.SIGHUP)
        echo.wait_log("the configuration was not read again", workers)
        assert echo.get("/").ok
        assert echo.stop() == 0


def test_sigusr2_reports_the_state(tmp_path, mode, workers):
    with Echo(tmp_path, mode, workers, extra="[database]\nconnection = mysql+pymysql://u:topsecret@h/d") as echo:
        echo.wait_log("is ready", workers)
        echo.send(signal.SIGUSR2)
        echo.wait_log("Options of this process", workers)
        echo.wait_log("report_interval", workers)
        assert "topsecret" not in echo.log()
        assert echo.get("/").ok
        assert echo.stop() == 0


def test_sigusr2_writes_to_the_log_file(tmp_path, mode):
    with Echo(tmp_path, mode, default=f"log_file = {tmp_path}/echo.log\nuse_stderr = true") as echo:
        echo.send(signal.SIGUSR2)
        wait_for("the report", lambda: "Options of this process" in (tmp_path / "echo.log").read_text(), 15)


def test_log_lines_name_request_and_server(tmp_path, mode):
    with Echo(tmp_path, mode) as echo:
        echo.get("/log")
        echo.wait_log("about a server")
        line = next(line for line in echo.log().splitlines() if "about a server" in line)
        assert "req-11111111-2222-3333-4444-555555555555" in line
        assert "req-global" in line
        assert f"[instance: {UUID}] about a server" in line


def test_tls(tmp_path, mode, certificate):
    extra = f"tls_cert_file = {certificate}/cert.pem\ntls_key_file = {certificate}/key.pem"
    with Echo(tmp_path, mode, extra=extra) as echo:
        silent = socket.create_connection(("127.0.0.1", echo.port))     # never says hello, and stops nobody
        verify = str(certificate / "cert.pem")
        with requests.Session() as session:
            for _ in range(3):
                answer = session.get(echo.url + "/x", verify=verify, timeout=5)
                assert answer.text.split()[1:] == ["https", "/x"]
        with pytest.raises(requests.RequestException):
            requests.get(echo.url.replace("https", "http"), timeout=5).raise_for_status()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", echo.port), timeout=5) as plain, pytest.raises((ssl.SSLError, OSError)):
            old.wrap_socket(plain)
        assert echo.get("/", verify=verify).ok
        silent.close()
        assert echo.stop() == 0


def test_systemd_is_told(tmp_path, mode, workers):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.settimeout(10)
        with Echo(tmp_path, mode, workers, env={"NOTIFY_SOCKET": path}) as echo:
            assert sock.recv(100) == b"READY=1"
            echo.send(signal.SIGHUP)
            assert sock.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert sock.recv(100) == b"READY=1"
            assert echo.stop() == 0
            assert sock.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize(("change", "said"), [
    ("port = seventy", "[api] port"), ("tls_cert_file = /nowhere/cert.pem", "/nowhere/cert.pem"),
    ("[DEFAULT]\ntransport_url = pigeon://loft", "pigeon"), ("auth_strategy = trust", "auth_strategy"),
    ("[DEFAULT]\nlog_file = /nowhere/at/all.log", "/nowhere/at/all.log"), ("this is no option", "echo.conf"),
])
def test_mistakes_are_one_line(tmp_path, mode, change, said):
    echo = Echo(tmp_path, mode, extra=change)
    done = subprocess.run(echo.process.command, env={**os.environ, **echo.process.env}, capture_output=True, text=True,
                          timeout=30)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("echo: ")
    assert said in done.stderr


def test_taken_port_is_one_line(tmp_path, mode, workers):
    with socket.socket() as other:
        echo = Echo(tmp_path, mode, workers)
        other.bind(("127.0.0.1", echo.port))
        other.listen()
        done = subprocess.run(echo.process.command, env={**os.environ, **echo.process.env}, capture_output=True, text=True,
                              timeout=30)
    assert done.returncode == 1
    assert done.stderr == f"echo: Cannot listen on 127.0.0.1:{echo.port}: Address already in use\n"


def test_compute_hosts_of_the_fake_driver():
    conf = conf_module.load([], config_files=[], host="n", compute__driver="fake", fake__hosts=3)
    assert service.compute_hosts(conf) == ["n", "n-2", "n-3"]
    conf.set_override("driver", "libvirt", group="compute")
    assert service.compute_hosts(conf) == ["n"]
