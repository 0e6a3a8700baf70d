"""Users of database and broker change while a cloud of five services works: HUP, and nobody notices."""
from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest

from tests.support.cloud import NAMES, Services
from tests.support.engines import MariaDB, PostgreSQL, RabbitMQ
from tests.support.process import wait_for


class Broker(RabbitMQ):
    """``url_of`` a user."""

    def add_user(self, name, permissions=".*"):
        self.control("add_user", name, f"{name}-secret")
        self.control("set_permissions", name, *[permissions] * 3)
        return self.url.replace("guest:guest", f"{name}:{name}-secret")


class Maria(MariaDB):
    def sql(self, text):
        return subprocess.run(["mariadb", "--no-defaults", "-uroot", f"--socket={self.socket}", "-BNe", text], check=True,
                              capture_output=True, text=True).stdout

    def change_user(self, url):
        name = url.rpartition("/")[2].partition("?")[0]
        self.sql(f"GRANT ALL ON {name}.* TO second@'127.0.0.1' IDENTIFIED BY 'second-secret'")
        return url.replace("nova:secret", "second:second-secret")

    def remove_old(self):
        self.sql("ALTER USER nova@'127.0.0.1' ACCOUNT LOCK")

    def users(self):
        return set(self.sql("SELECT DISTINCT user FROM information_schema.processlist WHERE db LIKE 'nova_lite%'").split())


class Postgres(PostgreSQL):
    def sql(self, text):
        return subprocess.run([self.home / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "nova", "-At", "-c", text,
                               "postgres"], check=True, capture_output=True, text=True).stdout

    def change_user(self, url):
        self.sql("CREATE USER second PASSWORD 'second-secret' IN ROLE nova")
        self.sql("ALTER USER second SET ROLE nova")
        return url.replace("nova@", "second:second-secret@")

    def remove_old(self):
        """It is the superuser that the test needs."""

    def users(self):
        return set(self.sql("SELECT DISTINCT usename FROM pg_stat_activity WHERE datname LIKE 'nova_lite%'").split())


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    made = Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        made.start()
        made.control("await_startup")
        yield made
    finally:
        made.close()


class Users:
    """Boot and list servers until they are told to go."""

    def __init__(self, cloud):
        self._client, self._gone = cloud.client(), threading.Event()
        self.servers, self.failures = [], []
        self._flavor, self._image = self._client.flavor(), self._client.image()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._boot, self._list)]

    def _boot(self):
        self.servers.append(self._client.boot(flavor=self._flavor, image=self._image)["id"])

    def _list(self):
        self._client.ok("GET", "/servers/detail?limit=10")

    def _run(self, work):
        while not self._gone.wait(0.1):
            try:
                work()
            except Exception as error:
                self.failures.append(error)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._gone.set()
        for thread in self._threads:
            thread.join()


def hup(cloud, said, names=NAMES):
    """HUP to the first process of each service, as an operator sends it, until each of their workers has said so once more."""
    processes = {name: cloud.processes[name] for name in names}
    before = {name: process.log.read_text().count(said) for name, process in processes.items()}
    for process in processes.values():
        os.kill(process.pid, signal.SIGHUP)
    for name, process in processes.items():
        workers = 3 if name == "api" else 1         # two, and their parent
        wait_for(f"{name} to say {said!r}:\n{process.tail()}",
                 lambda p=process, n=before[name] + workers: p.log.read_text().count(said) >= n, 60)


@pytest.mark.parametrize(("engine", "mode"), [(Maria, "eventlet"), (Postgres, "threading")], ids=["mariadb", "postgresql"])
def test_nobody_notices_a_change_of_users(broker, tmp_path, engine, mode):
    database = engine(tmp_path / "database").start()
    first, second = f"{mode}-1", f"{mode}-2"
    cloud = Services(tmp_path / "cloud", broker.add_user(first), database.new_database(), {"NOVA_LITE_CONCURRENCY": mode},
                     api__workers=2, rpc__exchange=f"nova_lite_{mode}")
    try:
        cloud.start()
        cloud.add_image()
        text = cloud.config.read_text()
        urls = dict(line.split(" = ", 1) for line in text.splitlines() if line.startswith(("connection", "transport_url")))
        with Users(cloud) as users:
            # a user that is not there: all stays as it is
            cloud.config.write_text(text.replace(f"{first}:{first}-secret", f"{second}:{second}-secret"))
            hup(cloud, "the configuration was not read again")
            # one who may not listen
            weak = broker.add_user(f"{mode}-weak", "^$")
            cloud.config.write_text(text.replace(urls["transport_url"], weak))
            hup(cloud, "the configuration was not read again: Unable to connect", ("conductor", "scheduler", "compute"))
            # one that is right, in both
            text = text.replace(urls["transport_url"], broker.add_user(second))
            cloud.config.write_text(text.replace(urls["connection"], database.change_user(urls["connection"])))
            hup(cloud, "the configuration was read again; changed: DEFAULT.transport_url, database.connection")
            wait_for("the connections of the old user to go", lambda: database.users() == {"second"}, 60)
            database.remove_old()
            count = len(users.servers)
            wait_for("servers over the new connections", lambda: len(users.servers) > count + 5, 60)
            # what still lives on an old connection would stop here
            broker.control("change_password", first, "something else")
            broker.control("close_all_user_connections", first, "its password has changed")
            count = len(users.servers)
            wait_for("servers without the old connections", lambda: len(users.servers) > count + 5, 60)
        assert not users.failures
        client = cloud.client()
        for server in users.servers:
            client.wait(server, "ACTIVE", 120)
        logs = "".join(process.log.read_text() for process in cloud.processes.values())
        assert "secret" not in logs.replace("secret_keys", "")
        assert "immutable option" not in logs
        cloud.stop()
    finally:
        for process in cloud.processes.values():
            process.send(signal.SIGKILL)
        database.close()
