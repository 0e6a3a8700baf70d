"""Private RabbitMQ, MariaDB and PostgreSQL servers, each with its own directory and port, for one test session."""
from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from tests.support.process import Process, free_port, wait_for


def _listens(port: int) -> bool:
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


class RabbitMQ:
    """A one-node broker; ``url`` is its transport_url on this machine, ``address`` where it listens."""

    def __init__(self, directory: pathlib.Path, address: str = "127.0.0.1") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port, dist, epmd = free_port(), free_port(), free_port()
        self.node = f"nl{self.port}@localhost"
        self.url = f"rabbit://guest:guest@127.0.0.1:{self.port}/"
        (directory / "enabled_plugins").write_text("[].\n")
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {address}:{self.port}\nloopback_users = none\ndisk_free_limit.absolute = 50MB\n"
            "vm_memory_high_watermark.absolute = 1GB\nlog.file.level = warning\n")
        self.env = {"RABBITMQ_NODENAME": self.node, "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(dist),
                    "ERL_EPMD_PORT": str(epmd), "RABBITMQ_MNESIA_BASE": str(directory / "data"),
                    "RABBITMQ_LOG_BASE": str(directory / "log"), "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
                    "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"), "HOME": str(directory),
                    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none"}
        self.process: Process | None = None

    def start(self) -> RabbitMQ:
        home = "/usr/lib/rabbitmq/bin"   # not /usr/sbin: that wrapper changes the user and with it who may write here
        self.process = Process("rabbitmq", [f"{home}/rabbitmq-server"], self.directory, self.env).start()
        wait_for("RabbitMQ", lambda: _listens(self.port), 180)
        return self

    def control(self, *words: str) -> str:
        """What rabbitmqctl says."""
        return subprocess.run(["/usr/lib/rabbitmq/bin/rabbitmqctl", "-q", "-n", self.node, *words], check=True, timeout=120,
                              env={**os.environ, **self.env}, capture_output=True, text=True).stdout

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        assert self.process is not None
        self.process.kill(signal.SIGTERM, 60)
        wait_for("the broker's port to close", lambda: not _listens(self.port), 60)

    def close(self) -> None:
        if self.process is not None and self.process.alive():
            self.process.kill(signal.SIGTERM, 60)
        self._end_epmd()

    def _end_epmd(self) -> None:
        """Erlang's port mapper outlives the node that started it. Its port stands in its environment only."""
        mark = f"ERL_EPMD_PORT={self.env['ERL_EPMD_PORT']}".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):          # it ends while we look
                if (process / "comm").read_text().strip() == "epmd" and mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGTERM)


class MariaDB:
    """``new_database()`` gives SQLAlchemy URLs of empty databases."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory, self.port, self.count = directory, free_port(), 0
        directory.mkdir(parents=True, exist_ok=True)
        self.socket = directory / "sock"
        self.process: Process | None = None

    def start(self) -> MariaDB:
        data = self.directory / "data"
        if not data.exists():
            self._install(data)
        self.process = Process("mariadb", [
            shutil.which("mariadbd") or "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}", "--user=root",
            f"--socket={self.socket}", f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve",
            f"--pid-file={self.directory}/pid", "--innodb-buffer-pool-size=128M", "--max-connections=500"],
            self.directory).start()
        wait_for("MariaDB", lambda: _listens(self.port), 180)
        return self

    @staticmethod
    def _install(data: pathlib.Path) -> None:
        """One at a time on this machine: of two that ran at once, one has failed now and then."""
        with open(pathlib.Path(tempfile.gettempdir(), "nova-lite-mariadb-install.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db",
                                   "--auth-root-authentication-method=normal"], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def new_database(self) -> str:
        self.count += 1
        name = f"nova_lite_{self.count}"
        subprocess.run(["mariadb", "--no-defaults", "-uroot", f"--socket={self.socket}", "-e",
                        f"CREATE DATABASE {name} CHARACTER SET utf8mb4; "
                        f"GRANT ALL ON {name}.* TO nova@'127.0.0.1' IDENTIFIED BY 'secret'"], check=True)
        return f"mysql+pymysql://nova:secret@127.0.0.1:{self.port}/{name}?charset=utf8mb4"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill(signal.SIGTERM, 60)


class PostgreSQL:
    """As :class:`MariaDB`. The server refuses to run as root, so it runs as the user postgres, who may not pass through
    pytest's private directories: its files are in a directory of their own."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory, self.port, self.count = pathlib.Path(tempfile.mkdtemp(prefix="nova-lite-postgresql-")), free_port(), 0
        self.home = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.process: Process | None = None

    def _as_postgres(self, *command: object) -> list[str]:
        user = pwd.getpwnam("postgres")
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *map(str, command)]

    def start(self) -> PostgreSQL:
        user, data = pwd.getpwnam("postgres"), self.directory / "data"
        os.chown(self.directory, user.pw_uid, user.pw_gid)
        if not data.exists():
            subprocess.run(self._as_postgres(self.home / "initdb", "-D", data, "-A", "trust", "-U", "nova", "-N"),
                           check=True, capture_output=True, cwd="/")
        self.process = Process("postgresql", self._as_postgres(
            self.home / "postgres", "-D", data, "-p", self.port, "-c", "listen_addresses=127.0.0.1",
            "-c", f"unix_socket_directories={self.directory}", "-c", "max_connections=200"), self.directory).start()
        wait_for("PostgreSQL", lambda: subprocess.run(
            [self.home / "pg_isready", "-h", "127.0.0.1", "-p", str(self.port)], capture_output=True,
            check=False).returncode == 0, 180)
        time.sleep(0.2)
        return self

    def new_database(self) -> str:
        self.count += 1
        name = f"nova_lite_{self.count}"
        subprocess.run([self.home / "createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "nova", name], check=True)
        return f"postgresql+psycopg2://nova@127.0.0.1:{self.port}/{name}"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill(signal.SIGINT, 60)
        shutil.rmtree(self.directory)
