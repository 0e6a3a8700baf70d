"""The console scripts as an operator meets them: help, version, and mistakes told in one line."""
from __future__ import annotations

import argparse
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_lite import conf as nova_conf
from nova_lite import manage, version
from nova_lite.db import core, flavors, schema
from nova_lite.manage import policy
from tests.support.process import BIN, Process, free_port, wait_for

SERVICES = ["api", "api-metadata", "conductor", "scheduler", "compute"]
PROXIES = ["novncproxy", "serialproxy", "spicehtml5proxy"]
SCRIPTS = [*SERVICES, *PROXIES, "manage", "status", "policy", "standalone"]
WITH_DATABASE = ["api", "conductor", "scheduler"]


def run(script: str, *arguments: object, mode: str = "eventlet") -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / f"nova-lite-{script}", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "NOVA_LITE_CONCURRENCY": mode}, check=False)


def one_line(done: subprocess.CompletedProcess[str], script: str) -> str:
    """The only line on stderr of a script that failed."""
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stdout
    assert lines[0].startswith(f"nova-lite-{script}: ")
    return lines[0]


@pytest.fixture
def config(tmp_path):
    def write(database: str = "", transport: str = "fake://", more: str = ""):
        path = tmp_path / "nova-lite.conf"
        path.write_text(f"[DEFAULT]\ntransport_url = {transport}\nstate_path = {tmp_path}\n[database]\n"
                        f"connection = {database or f'sqlite:///{tmp_path}/db.sqlite'}\n[api]\nport = {free_port()}\n{more}\n")
        return path
    return write


@pytest.mark.parametrize("script", SCRIPTS)
def test_version_and_help(script):
    done = run(script, "--version")
    assert (done.returncode, done.stdout.strip()) == (0, version.VERSION)
    done = run(script, "--help")
    assert done.returncode == 0
    assert "--config-file" in done.stdout
    assert "--config-dir" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_unknown_argument(script):
    assert "--bogus" in one_line(run(script, "--bogus"), script) or script in ("manage", "status", "policy")


@pytest.mark.parametrize("script", SERVICES)
def test_broken_option(script, config):
    assert "[compute] report_interval" in one_line(
        run(script, "--config-file", config(more="[compute]\nreport_interval = soon")), script)


def test_missing_configuration_file():
    assert "/nowhere/nova-lite.conf" in one_line(run("conductor", "--config-file", "/nowhere/nova-lite.conf"), "conductor")


def test_config_dir_is_read(tmp_path, config):
    path = config()
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10.conf").write_text("[api]\nport = 99999\n")
    assert "[api] port" in one_line(run("api", "--config-file", path, "--config-dir", tmp_path / "conf.d"), "api")


def test_unknown_concurrency():
    done = run("api", "--version", mode="fibres")
    assert done.returncode == 1
    assert done.stderr.strip() == "error: NOVA_LITE_CONCURRENCY must be eventlet or threading, not 'fibres'"


@pytest.mark.parametrize("script", WITH_DATABASE)
@pytest.mark.parametrize("mode", ["eventlet", "threading"])
def test_unreachable_database(script, mode, config):
    port = free_port()
    line = one_line(run(script, "--config-file", config(f"mysql+pymysql://nova:topsecret@127.0.0.1:{port}/nova"),
                        mode=mode), script)
    assert f"127.0.0.1:{port}" in line
    assert "is unavailable" in line
    assert "topsecret" not in line


@pytest.mark.parametrize("url", ["pigeon://loft", "no url at all", "oracle+cx_oracle://u:p@127.0.0.1/d"])
def test_unusable_database_url(url, config):
    assert "[database] connection" in one_line(run("conductor", "--config-file", config(url)), "conductor")


@pytest.mark.parametrize("script", WITH_DATABASE)
def test_schema_that_was_never_synced(script, config):
    assert "run 'nova-lite-manage db sync'" in one_line(run(script, "--config-file", config()), script)


def test_unreachable_broker(config):
    """Needs no database on the way there: these have none. Each waits ten seconds for the broker, all at once."""
    port = free_port()
    path = config("pigeon://loft", f"rabbit://u:topsecret@127.0.0.1:{port}/")

    def told(script, mode):
        return one_line(run(script, "--config-file", path, mode=mode), script)
    with ThreadPoolExecutor() as pool:
        lines = list(pool.map(told, ("compute", "api-metadata", "novncproxy", "serialproxy"), ("eventlet", "threading") * 2))
    for line in lines:
        assert f"127.0.0.1:{port}" in line
        assert "topsecret" not in line


@pytest.mark.parametrize("script", PROXIES)
def test_a_proxy_without_websockify(script, config, tmp_path):
    (tmp_path / "websockify.py").write_text("raise ModuleNotFoundError(\"No module named 'websockify'\", name='websockify')\n")
    done = subprocess.run([BIN / f"nova-lite-{script}", "--config-file", config()], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=False)
    assert "needs the Python package websockify" in one_line(done, script)


@pytest.fixture
def no_directory(config, tmp_path):
    """A configuration whose state directory cannot be written, not even by root."""
    path = config(more="auth_strategy = embedded\nworkers = 1\n[compute]\ndriver = fake\n[network]\ndriver = null")
    assert run("manage", "--config-file", path, "db", "sync").returncode == 0
    (tmp_path / "file").touch()

    def write(workers=1):
        text = path.read_text().replace("workers = 1", f"workers = {workers}")
        text = text.replace("[database]\n", f"[database]\nsecret_keys_file = {tmp_path}/secret_keys\n")
        path.write_text(text.replace(f"state_path = {tmp_path}\n", f"state_path = {tmp_path}/file\n"))
        return path
    return write


@pytest.mark.parametrize("command", ["api", "compute", "manage embedded setup"])
def test_a_state_directory_that_cannot_be_written(no_directory, command, tmp_path):
    script, *arguments = command.split()
    assert f"{tmp_path}/file" in one_line(run(script, "--config-file", no_directory(), *arguments), script)


def test_a_standalone_cloud_in_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "state"):
        assert f"{tmp_path}/file" in one_line(run("standalone", "--virt-driver", "fake", "--state-path", path), "standalone")


def test_workers_tell_it_in_one_line_too(no_directory, tmp_path):
    api = Process("api", [str(BIN / "nova-lite-api"), "--config-file", str(no_directory(workers=2))], tmp_path).start()
    wait_for("two workers", lambda: api.log.read_text().count("Not a directory") >= 2, 30)
    api.kill(signal.SIGTERM)
    assert "Traceback" not in api.log.read_text()


def test_manage_db(config):
    path = config()
    assert run("manage", "--config-file", path, "db", "version").stdout == f"empty (newest: {schema.head()})\n"
    done = run("manage", "--config-file", path, "db", "sync")
    assert done.returncode == 0
    keys = path.with_name("secret_keys")
    assert done.stdout.splitlines()[-2:] == [
        f"The database is at revision {schema.head()}.",
        f"The keys for secrets in it are in {keys}. Copy the file to all machines with an API or a conductor."]
    assert run("manage", "--config-file", path, "db", "sync").stdout.splitlines()[-1].startswith("The database is")
    assert run("manage", "--config-file", path, "db", "version").stdout == f"{schema.head()} (newest: {schema.head()})\n"
    assert run("manage", "--config-file", path, "service", "list").stdout.split()[:3] == ["binary", "host", "status"]


def test_manage_network_create(config):
    path = config()
    assert "nova-lite-manage: " in one_line(run("manage", "--config-file", path, "service", "list"), "manage")   # no tables
    run("manage", "--config-file", path, "db", "sync")
    done = run("manage", "--config-file", path, "network", "create", "--name", "private", "--cidr", "10.9.0.0/24")
    assert done.returncode == 0, done.stderr
    assert "10.9.0.0/24" in done.stdout
    one_line(run("manage", "--config-file", path, "network", "create", "--name", "x", "--cidr", "10.9.0.0/99"), "manage")


def test_manage_action_list(config):
    path = config()
    run("manage", "--config-file", path, "db", "sync")
    assert run("manage", "--config-file", path, "action", "list").stdout == "No action is open.\n"
    assert "--older-than" in one_line(run("manage", "action", "list", "--older-than", "x"), "manage")


def test_manage_host_drain(config):
    path = config()
    assert "db sync" in one_line(run("manage", "--config-file", path, "host", "drain", "h1"), "manage")
    run("manage", "--config-file", path, "db", "sync")
    assert "on host h1" in one_line(run("manage", "--config-file", path, "host", "drain", "h1"), "manage")
    assert "0 is less than 1" in one_line(run("manage", "host", "drain", "h1", "--parallel", "0"), "manage")


def test_manage_names_what_is_not_there(config, tmp_path):
    path = config()
    assert "nosuch" in one_line(run("manage", "--config-file", path, "db", "sync", "--revision", "nosuch"), "manage")
    run("manage", "--config-file", path, "db", "sync")
    told = one_line(run("manage", "--config-file", path, "embedded", "setup", "--image", tmp_path / "nosuch"), "manage")
    assert told.endswith(f"{tmp_path}/nosuch: No such file or directory")


def _parts(parser, path=()):
    """(the words before it, action) of each option of a parser and of its sub-commands; their one-line help as well."""
    for action in parser._actions:
        yield path, action
        if isinstance(action, argparse._SubParsersAction):
            yield from ((path, choice) for choice in action._choices_actions)
            for name, one in action.choices.items():
                yield from _parts(one, (*path, name))


@pytest.mark.parametrize("add", [manage.add_parsers, policy.add_parsers])
def test_each_area_command_and_option_says_what_it_is(add):
    parser = argparse.ArgumentParser()
    add(parser.add_subparsers(help="areas or commands"))
    silent = [(path, action.dest) for path, action in _parts(parser)
              if not action.help and not isinstance(action, argparse._SubParsersAction)]
    assert not silent


def test_help_of_manage_and_policy():
    assert "the schema of the database" in run("manage", "--help").stdout
    assert "the newest by default" in run("manage", "db", "sync", "--help").stdout
    assert "the id of the caller's project" in run("policy", "allowed", "--help").stdout


def test_manage_names_a_driver_of_the_database_that_is_not_installed(config):
    path = config("postgresql+pg8000://nova:topsecret@127.0.0.1/nova")
    for command in (("service", "list"), ("db", "sync"), ("embedded", "setup")):
        told = one_line(run("manage", "--config-file", path, *command), "manage")
        assert "[database] connection: No module named 'pg8000'" in told


def test_manage_names_another_package_that_cannot_be_imported(config, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    path = config()
    run("manage", "--config-file", path, "db", "sync")
    (tmp_path / "site" / "alembic.py").write_text("raise ImportError('alembic is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    told = one_line(run("manage", "--config-file", path, "db", "version"), "manage")
    assert "alembic is broken" in told
    assert "database is unavailable" not in told


def test_manage_needs_a_command(config):
    assert "area" in one_line(run("manage"), "manage")
    assert "command" in one_line(run("manage", "db"), "manage")


def test_status_tells_of_flavors_that_no_filter_reads(config):
    path = config()
    run("manage", "--config-file", path, "db", "sync")
    database = core.Database(nova_conf.load([], config_files=[path]))
    database.write(flavors.create, {"name": "fast", "flavorid": "1", "memory_mb": 1, "vcpus": 1, "root_gb": 1,
                                    "extra_specs": {"aggregate_instance_extra_specs:ssd": "true"}})
    database.dispose()
    told = run("status", "--config-file", path, "upgrade", "check").stdout
    assert "Scheduler filters: Warning: AggregateInstanceExtraSpecsFilter is not in [scheduler] enabled_filters" in told
    assert ": fast\n" in told


def test_status_tells_each_check(config):
    path = config()
    done = run("status", "--config-file", path, "upgrade", "check")
    assert done.returncode == 2
    assert "Database: Failure: The database schema is at nothing" in done.stdout
    assert "Compute hosts: Failure: " in done.stdout
    run("manage", "--config-file", path, "db", "sync")
    done = run("status", "--config-file", path, "upgrade", "check")
    assert done.stdout.splitlines() == ["Database: Success: reachable and at the newest schema",
                                        "Keys of secrets: Success: there",
                                        "Clock: Success: as the database's", "Message broker: Success: reachable",
                                        "Conductor and scheduler: Failure: no nova-conductor and no nova-scheduler reports",
                                        "Compute hosts: Failure: none of 0 compute hosts reports",
                                        "Scheduler filters: Success: as the flavors ask",
                                        "Scale: Success: processes and database suffice for the hosts"]
    assert done.returncode == 2
