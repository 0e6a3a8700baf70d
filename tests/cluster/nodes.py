"""The clusters of ``devstack/local/cluster.sh`` for one test session, and the faults of their nodes."""
from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import time
from collections.abc import Iterator

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "devstack" / "local" / "cluster.sh"
PORT_BASE = 22000
BALANCED = f"127.0.0.1:{PORT_BASE + 1}"
RABBITS, MARIAS = ("rabbit-1", "rabbit-2", "rabbit-3"), ("maria-1", "maria-2", "maria-3")
FAULTS = {"kill": "start", "hang": "resume", "cut": "join"}
"""The word of cluster.sh that begins a fault -> the word that ends it."""
_NETWORKS = {"rabbit": 10, "maria": 20, "postgres": 30}


def address(node: str) -> str:
    """Of its network interface."""
    kind, number = node.split("-")
    return f"192.168.98.{_NETWORKS[kind] + int(number)}"


class Cluster:
    """``transport_url`` names all brokers; the methods ``..._url`` make databases."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory, self._count = directory, 0

    def run(self, *words: str) -> str:
        """Run cluster.sh. AssertionError with its output when it fails."""
        done = subprocess.run([PROGRAM, *words], env={**os.environ, "STACK_DIR": str(self.directory),
                                                      "STACK_PORT_BASE": str(PORT_BASE)},
                              capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, f"cluster.sh {words}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def password(self) -> str:
        """Of the user stack of all engines."""
        return (self.directory / "password").read_text()

    @property
    def transport_url(self) -> str:
        """All brokers; a service takes one of them, and another when it fails."""
        return f"rabbit://{','.join(f'stack:{self.password}@{address(node)}:5672' for node in RABBITS)}/"

    def new_maria(self) -> dict[str, str]:
        """An empty database of MariaDB: node -> its URL there; "balanced": by HAProxy, any node."""
        name = self._new_name()
        subprocess.run(["mariadb", "--no-defaults", "-uroot", "-S", f"{self.directory}/data/maria-1/sock", "-e",
                        f"CREATE DATABASE {name} CHARACTER SET utf8mb4"], check=True)
        places = {node: f"{address(node)}:3306" for node in MARIAS} | {"balanced": BALANCED}
        return {node: f"mysql+pymysql://stack:{self.password}@{place}/{name}?charset=utf8mb4" for node, place in places.items()}

    def new_postgresql(self) -> str:
        """An empty database of PostgreSQL, on the node that is the primary."""
        name = self._new_name()
        hosts = [address("postgres-1"), address("postgres-2")]
        query = "&".join(f"host={host}:5432" for host in hosts) + "&target_session_attrs=read-write"
        subprocess.run(["psql", "-qd", f"host={','.join(hosts)} user=stack dbname=postgres target_session_attrs=read-write",
                        "-c", f"CREATE DATABASE {name}"], env={**os.environ, "PGPASSWORD": self.password}, check=True)
        return f"postgresql+psycopg2://stack:{self.password}@/{name}?{query}"

    @contextlib.contextmanager
    def applies_nothing(self, node: str, seconds: float) -> Iterator[float]:
        """A node of MariaDB takes the others' transactions, and applies none for so many seconds. Gives the monotonic time when
        it goes on. The block ends later."""
        with subprocess.Popen(["mariadb", "--no-defaults", "-uroot", "-NBn", "-S", f"{self.directory}/data/{node}/sock"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
            assert session.stdin is not None
            assert session.stdout is not None
            session.stdin.write("FLUSH TABLES WITH READ LOCK; SELECT 'locked';\n")
            session.stdin.flush()
            assert session.stdout.readline() == "locked\n"
            until = time.monotonic() + seconds
            session.stdin.write(f"SELECT SLEEP({seconds}); UNLOCK TABLES;\n")
            session.stdin.flush()
            yield until
            session.stdin.close()

    def _new_name(self) -> str:
        self._count += 1
        return f"nova_lite_{self._count}"

    @contextlib.contextmanager
    def fault(self, node: str, fault: str, seconds: float) -> Iterator[None]:
        """While the block runs, and for at least so many seconds."""
        began = time.monotonic()
        self.run(fault, node)
        try:
            yield
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        finally:
            self.run(FAULTS[fault], node)
