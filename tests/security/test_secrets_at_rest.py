"""Passwords in the database: who has its files, or a dump of it, finds none, neither while an operation is open nor later."""
from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
import tempfile

import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import exception, status
from nova_lite.api import app
from nova_lite.conductor.steps import Steps
from nova_lite.context import admin_context
from nova_lite.db import actions, models, secret_keys
from nova_lite.db.secret_keys import SecretKeys
from tests.support.engines import MariaDB, PostgreSQL
from tests.support.process import BIN
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers
from tests.unit.db.databases import empty_database

ROOT = pathlib.Path(__file__).parents[2]
PASSWORD = "correct-horse-battery-staple"
VERBS = ("create", "rebuild", "rescue", "changePassword", "evacuate")


class SQLite:
    """Its files are as good as a dump, and tell more."""

    def __init__(self, directory):
        self.directory = directory

    def start(self):
        return self

    def new_database(self):
        return "sqlite"

    def dump(self, url):
        return b"".join(path.read_bytes() for path in sorted(self.directory.glob("nova.sqlite*")))

    def close(self):
        pass


class DumpedMariaDB(MariaDB):
    def dump(self, url):
        return subprocess.run(["mariadb-dump", "--no-defaults", "-uroot", f"--socket={self.socket}", sa.make_url(url).database],
                              capture_output=True, check=True).stdout


class DumpedPostgreSQL(PostgreSQL):
    def dump(self, url):
        return subprocess.run([self.home / "pg_dump", "-h", "127.0.0.1", "-p", str(self.port), "-U", "nova",
                               sa.make_url(url).database], capture_output=True, check=True).stdout


@pytest.fixture(scope="module", params=[SQLite, DumpedMariaDB, DumpedPostgreSQL], ids=["sqlite", "mariadb", "postgresql"])
def engine(request, tmp_path_factory):
    made = request.param(tmp_path_factory.mktemp(request.param.__name__))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "nova-lite.conf").write_text("[DEFAULT]\ntransport_url = fake:/\n")
    return nova_conf.load([], config_files=[str(tmp_path / "nova-lite.conf")], state_path=str(tmp_path), host="control",
                          network__driver="bridge", image__driver="local")


@pytest.fixture
def cloud(engine, conf, tmp_path):
    """The API; nobody works on what is asked."""
    if isinstance(engine, SQLite):
        engine.directory = tmp_path
    with empty_database(engine.new_database(), tmp_path) as url:
        conf.set_override("connection", url, group="database")
        secret_keys.ensure(conf)
        services = app.make_services(conf)
        made = Cloud(services)
        made.dump = lambda: engine.dump(url)
        yield made
        services.db.dispose()


def _ask(cloud, verb, monkeypatch):
    """An operation with the password, which waits for its host; the server."""
    servers, member = Servers(cloud), cloud.client()
    if verb == "create":
        return servers.create(member, adminPass=PASSWORD, config_drive=True)
    server = servers.active(member, config_drive=True)
    _end(cloud, server)
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "check_admin_password", lambda *_: None)
    body = {"rebuild": {"imageRef": servers.image}, "rescue": {}, "changePassword": {}, "evacuate": {"onSharedStorage": False}}
    body[verb]["adminPass"] = PASSWORD
    client = cloud.client("admin", "admin", ("admin",)) if verb == "evacuate" else member
    if verb == "evacuate":
        cloud.db.write(lambda conn: conn.execute(sa.update(models.services).values(forced_down=True)))
        cloud.add_service("host2")
        cloud.add_node("host2")
    answer = client.call("POST", f"/servers/{server}/action", {verb: body[verb]})
    assert answer.status_code < 300, answer.text
    return server


def _open(cloud, server):
    with cloud.db.read() as connection:
        [found] = actions.open_of_instances(connection, [server])[server]
    return found


def _end(cloud, server):
    cloud.db.write(actions.finish, [_open(cloud, server).id])


@pytest.mark.parametrize("verb", VERBS)
def test_neither_an_open_nor_an_ended_operation_shows_its_password(cloud, verb, monkeypatch):
    server = _ask(cloud, verb, monkeypatch)
    waiting = _open(cloud, server)
    sealed = waiting.arguments["admin_password"]["sealed"]
    dumped = cloud.dump()
    assert PASSWORD.encode() not in dumped
    assert sealed.encode() in dumped
    _end(cloud, server)
    if cloud.db.engine.name == "sqlite":        # what was written is in a file of its own until now
        with cloud.db.read() as connection:
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    ended = cloud.dump()
    assert PASSWORD.encode() not in ended
    assert sealed.encode() not in ended


def test_the_host_that_claims_the_operation_gets_the_password(cloud, monkeypatch):
    server = _ask(cloud, "changePassword", monkeypatch)
    steps = Steps(cloud.conf, cloud.db, None, None, None)
    claim = {"action_id": _open(cloud, server).id, "owner": "host1:1", "host": "host1"}

    def claimed():
        return steps.steps(admin_context(), [["claim_action", claim]])[0]["result"]["action"]["arguments"]
    told = claimed()
    assert told["admin_password"] == PASSWORD
    assert claimed() == told                # its answer was lost
    note = {**claim, "instance_uuid": server, "updates": {}, "expected_task_states": ["updating_password"], "arguments": told}
    assert "error" in steps.steps(admin_context(), [["instance_update", note]])[0]      # it may not tell what it was told
    assert PASSWORD.encode() not in cloud.dump()
    assert claimed() == told


def test_keys_are_rotated_while_operations_are_open(cloud, monkeypatch):
    server, keys = _ask(cloud, "changePassword", monkeypatch), cloud.conf.database.secret_keys_file
    first = pathlib.Path(keys).read_bytes()
    other = pathlib.Path(f"{keys}-of-another-controller")
    other.write_bytes(first)
    for _ in range(secret_keys.KEPT - 2):
        secret_keys.rotate(cloud.conf)
        with cloud.db.read() as connection:
            assert actions.for_worker(connection, _open(cloud, server))["arguments"]["admin_password"] == PASSWORD
    assert len(pathlib.Path(keys).read_bytes().split()) == secret_keys.KEPT
    other.write_bytes(first)
    pathlib.Path(keys).write_bytes(first)
    secret_keys.rotate(cloud.conf)
    assert SecretKeys(str(other)).open(SecretKeys(keys).seal("x")) == "x"       # the file was not copied there yet
    assert SecretKeys(keys).open(SecretKeys(str(other)).seal("x")) == "x"


def test_a_password_of_an_older_version_is_read(cloud, monkeypatch):
    server = _ask(cloud, "changePassword", monkeypatch)
    action = _open(cloud, server)
    cloud.db.write(lambda conn: conn.execute(sa.update(models.instance_actions).where(
        models.instance_actions.c.id == action.id).values(arguments={**action.arguments, "admin_password": "old"})))
    with cloud.db.read() as connection:
        assert actions.for_worker(connection, _open(cloud, server))["arguments"]["admin_password"] == "old"


def test_no_password_is_stored_without_a_key(cloud):
    servers, member = Servers(cloud), cloud.client()
    os.unlink(cloud.conf.database.secret_keys_file)
    said = member.fault("POST", "/servers", 503, servers.body(adminPass=PASSWORD, config_drive=True))
    assert "Encryption of passwords" in said
    assert cloud.conf.database.secret_keys_file not in said
    assert PASSWORD.encode() not in cloud.dump()
    assert member.get("/servers")["servers"] == []
    servers.create(member)      # it needs no secret


def test_an_action_whose_key_is_missing_waits_for_it(cloud, monkeypatch):
    server, path = _ask(cloud, "changePassword", monkeypatch), pathlib.Path(cloud.conf.database.secret_keys_file)
    steps, kept = Steps(cloud.conf, cloud.db, None, None, None), path.read_bytes()
    claim = {"action_id": _open(cloud, server).id, "owner": "host1:1", "host": "host1"}
    path.unlink()
    secret_keys.ensure(cloud.conf)          # others
    with pytest.raises(exception.ConfigError, match=str(path)), cloud.db.read() as connection:
        actions.for_worker(connection, _open(cloud, server))
    assert steps.steps(admin_context(), [["claim_action", claim]]) == [{"result": None}]
    assert _open(cloud, server).state == "pending"
    assert status.keys(cloud.conf)[0] == status.FAILURE
    assert "1 open action(s)" in status.keys(cloud.conf)[1]
    path.write_bytes(kept)
    assert status.keys(cloud.conf) == (status.SUCCESS, "there")
    assert steps.steps(admin_context(), [["claim_action", claim]])[0]["result"]


# the file ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("mode", "uid", "gid"), [(0o640, 0, 12345), (0o600, 23456, 23456)])
def test_who_may_read_the_options_may_read_the_keys(conf, tmp_path, mode, uid, gid):
    os.chown(tmp_path / "nova-lite.conf", uid, gid)
    (tmp_path / "nova-lite.conf").chmod(mode)
    for change in (secret_keys.ensure, secret_keys.rotate):
        change(conf)
        found = os.stat(conf.database.secret_keys_file)
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, uid, gid)
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_keys_that_are_there_stay(conf):
    assert secret_keys.ensure(conf)
    kept = pathlib.Path(conf.database.secret_keys_file).read_bytes()
    assert not secret_keys.ensure(conf)
    assert pathlib.Path(conf.database.secret_keys_file).read_bytes() == kept


@pytest.mark.parametrize("content", [b"", b"not a key\n"])
def test_a_file_without_keys_is_told(conf, content):
    pathlib.Path(conf.database.secret_keys_file).write_bytes(content)
    with pytest.raises(exception.ConfigError, match="one Fernet key per line"):
        SecretKeys(conf.database.secret_keys_file).check()


@pytest.mark.parametrize("script", ["api", "conductor"])
def test_a_service_that_needs_keys_does_not_start_without(tmp_path, script):
    config = tmp_path / "nova-lite.conf"
    config.write_text(f"[DEFAULT]\ntransport_url = fake://\nstate_path = {tmp_path}\n[database]\n"
                      f"connection = sqlite:///{tmp_path}/nova.sqlite\n")
    manage = [BIN / "nova-lite-manage", "--config-file", config]
    subprocess.run([*manage, "db", "sync"], check=True, capture_output=True)
    (tmp_path / "secret_keys").unlink()
    done = subprocess.run([BIN / f"nova-lite-{script}", "--config-file", config], capture_output=True, text=True, check=False,
                          timeout=60)
    assert done.returncode == 1
    assert f"{tmp_path}/secret_keys" in done.stderr
    assert "nova-lite-manage db sync" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    subprocess.run([*manage, "db", "sync"], check=True, capture_output=True)
    before = (tmp_path / "secret_keys").read_text().split()
    subprocess.run([*manage, "secrets", "rotate"], check=True, capture_output=True)
    assert (tmp_path / "secret_keys").read_text().split()[:2] == before[::-1]


def test_no_secret_is_in_what_is_told_of_an_action(cloud, monkeypatch):
    server = _ask(cloud, "changePassword", monkeypatch)
    with cloud.db.read() as connection:
        assert PASSWORD not in json.dumps(actions.list_open(connection), default=str)
    shown = cloud.client("admin", "admin", ("admin",)).at("2.90").get(f"/servers/{server}/os-instance-actions")
    assert PASSWORD not in json.dumps(shown)
    assert "sealed" not in json.dumps(shown)


# other files ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def open_directory():
    """One that every user of the machine can pass through; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def test_what_a_setup_writes_is_not_for_every_user(open_directory):
    config = open_directory / "nova-lite.conf"
    config.write_text(f"[DEFAULT]\ntransport_url = fake://\nstate_path = {open_directory}/state\n"
                      "[api]\nauth_strategy = embedded\n[compute]\ndriver = fake\n"
                      f"[database]\nconnection = sqlite:///{open_directory}/state/db\n")
    config.chmod(0o640)
    (open_directory / "state").mkdir(mode=0o755)
    manage = [BIN / "nova-lite-manage", "--config-file", config]
    for command in (["db", "sync"], ["embedded", "setup"], ["secrets", "rotate"]):
        subprocess.run([*manage, *command], check=True, capture_output=True, umask=0o022)
    written = [path for path in (open_directory / "state").rglob("*") if path.is_file()]
    assert {"db", "secret_keys", "clouds.yaml", "passwords.json", "key", "users.json"} <= {path.name for path in written}
    readable = {path.name for path in written if path.stat().st_mode & stat.S_IROTH and all(
        directory.stat().st_mode & stat.S_IXOTH for directory in path.parents)}
    assert readable <= {"seeded", "db.sync-lock", ".lock"}


def test_a_service_tells_which_secrets_every_user_can_read(open_directory):
    config, log = open_directory / "nova-lite.conf", open_directory / "log"
    config.write_text(f"[DEFAULT]\ntransport_url = fake://\nstate_path = {open_directory}\nlog_file = {log}\n[database]\n"
                      f"connection = sqlite:///{open_directory}/db\n")
    config.chmod(0o644)
    conf = nova_conf.load([], config_files=[str(config)])
    secret_keys.ensure(conf)
    os.chmod(conf.database.secret_keys_file, 0o644)
    subprocess.run([BIN / "nova-lite-conductor", "--config-file", config], check=False, capture_output=True, timeout=60)
    [told] = [line for line in log.read_text().splitlines() if "every user of this machine can read" in line]
    assert f"{config}, {conf.database.secret_keys_file}: chmod 640" in told


def test_the_readme_writes_options_into_a_file_that_is_closed_before():
    written: dict[str, bool] = {}
    for line in (ROOT / "README.md").read_text().splitlines():
        if "install -m 640 /dev/null /etc/nova_lite/" in line:
            written[line.split()[4]] = True
        elif ">/etc/nova_lite/" in line.replace("> ", ">"):
            assert written.get(line.split(">")[1].split()[0]), line
    assert written
