"""The ground under devstack/local: daemons by pid file, steps that fail clearly, directories that keep their kind."""
from __future__ import annotations

import os
import pathlib
import socket
import subprocess

import pytest

LOCAL = pathlib.Path(__file__).resolve().parents[3] / "devstack" / "local"
START = "sleeper() { start sleeper sleep 1000; }\n"


@pytest.fixture
def shell(tmp_path):
    """Runs bash with the libraries, in a stack directory of its own; gives (status, output)."""
    directory = tmp_path / "stack"
    for name in ("log", "run", "etc"):
        (directory / name).mkdir(parents=True)

    def run(script: str) -> tuple[int, str]:
        sourced = "; ".join(f"source {LOCAL}/lib/{n}.sh" for n in ("settings", "progress", "process"))
        done = subprocess.run(["bash", "-euc", f"{sourced}; exec 9>$STACK_DIR/lock; {START}{script}"], text=True, timeout=60,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "STACK_DIR": str(directory), "STACK_CACHE": str(tmp_path / "cache")})
        return done.returncode, done.stdout
    run.directory = directory
    yield run
    run("stop sleeper 1")


def test_a_daemon_starts_once_and_stops(shell):
    assert shell("alive sleeper || echo not; sleeper; alive sleeper && echo yes")[1].split() == ["not", "yes"]
    first = (shell.directory / "run" / "sleeper.pid").read_text()
    shell("sleeper")
    assert (shell.directory / "run" / "sleeper.pid").read_text() == first
    assert shell("stop sleeper; alive sleeper || echo gone")[1].split() == ["gone"]
    assert not pathlib.Path(f"/proc/{first.split()[0]}").exists()


def test_a_pid_that_now_belongs_to_another_is_left_alone(shell):
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        try:
            (shell.directory / "run" / "sleeper.pid").write_text(f"{stranger.pid} 1\n")
            assert shell("alive sleeper || echo not; stop sleeper 1")[1].split() == ["not"]
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_one_that_does_not_obey_is_killed(shell):
    stubborn = "start sleeper bash -c 'trap : TERM; echo ready; while :; do sleep 0.1; done'; sleep 0.5; stop sleeper 1"
    status, output = shell(f"{stubborn}; alive sleeper || echo gone")
    assert status == 0
    assert "did not stop within 1 s: killed" in output
    assert output.endswith("gone\n")


def test_a_daemon_that_dies_is_told_at_once_with_its_log(shell):
    status, output = shell("start sleeper sh -c 'echo my last words; exit 3'; wait_until sleeper 50 false")
    assert status == 1
    assert "sleeper died" in output
    assert "my last words" in output


def test_a_step_that_fails_names_itself_and_shows_its_log(shell):
    status, output = shell("broken() { echo working; false; echo never; }; step first 'what it does' broken; echo after")
    assert status == 1
    assert "step 'first' (what it does), exit status 1" in output
    assert "working" in output
    assert "never" not in output
    assert "after" not in output


def test_steps_run_beside_each_other(shell):
    status, output = shell("begin slow 'the slow one' sleep 1; step fast 'the fast one' true; finish slow")
    assert status == 0
    assert output.index("the fast one") < output.index("the slow one")


def test_a_taken_port_is_told(shell):
    with socket.create_server(("127.0.0.1", 0)) as server:
        status, output = shell(f"need_port mysql {server.getsockname()[1]}")
    assert status == 1
    assert "which is for mysql, is taken" in output


def test_ports_follow_one_base(shell):
    assert shell("STACK_PORT_BASE=30000; source $STACK_HERE/lib/settings.sh; echo $P_KEYSTONE $P_COMPUTE")[1] == "30010 30014\n"


def test_a_later_run_keeps_kind_and_ports(shell):
    shell("STACK_KIND=api STACK_PORT_BASE=30000 STACK_NOVA_LITE_VENV=/venv; remember_settings")
    assert shell("echo $STACK_KIND $STACK_PORT_BASE")[1] == "api 30000\n"
    assert shell("source $STACK_HERE/lib/nova_lite.sh; echo $STACK_NOVA_LITE_VENV")[1] == "/venv\n"
    done = subprocess.run([LOCAL / "stack.sh"], capture_output=True, text=True, check=False,
                          env={**os.environ, "STACK_DIR": str(shell.directory)})
    assert done.returncode == 1
    assert "was made as 'api', not 'real'" in done.stderr


def test_the_password_of_the_databases_is_in_no_command_line(shell):
    status, output = shell("make_directories; mkdir -p $DATA/mysql/mysql; source $STACK_HERE/lib/infrastructure.sh; "
                           "start() { :; }; wait_until() { :; }; mariadb() { echo arguments: $*; cat; }; start_mariadb; "
                           "echo; password")
    assert status == 0, output
    arguments, statement, *_rest, password = output.split("\n")
    assert password not in arguments
    assert statement == f"CREATE USER IF NOT EXISTS stack@'%' IDENTIFIED BY '{password}';"


@pytest.mark.parametrize("script", ["stack.sh", "unstack.sh"])
def test_an_unknown_option_shows_the_usage(script, tmp_path):
    done = subprocess.run([LOCAL / script, "--what"], capture_output=True, text=True, check=False,
                          env={**os.environ, "STACK_DIR": str(tmp_path / "none")})
    assert done.returncode == 2
    assert "--wipe" in done.stderr or "--api-only" in done.stderr
    assert not (tmp_path / "none").exists()


def test_there_is_nothing_to_stop(tmp_path):
    done = subprocess.run([LOCAL / "unstack.sh"], capture_output=True, text=True, check=False,
                          env={**os.environ, "STACK_DIR": str(tmp_path / "none")})
    assert done.returncode == 1
    assert "there is no stack" in done.stderr
