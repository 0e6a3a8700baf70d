"""Real Keystone, Glance, Neutron and Cinder for tests/integration: ``stack.sh --api-only --neighbours-only``.

One stack serves all test sessions of a user at once, in ``$NOVA_LITE_NEIGHBOURS`` (default: ~/.cache/nova_lite/neighbours), on
ports from ``$NOVA_LITE_NEIGHBOURS_PORTS`` (23000). The first session starts it, the last one stops and wipes it; a stack that
was started there by hand is used and left alone:

    STACK_DIR=~/.cache/nova_lite/neighbours STACK_PORT_BASE=23000 devstack/local/stack.sh --api-only --neighbours-only

Each session has users and projects of its own, so what one leaves behind or uses up is nothing to the others.
Ports bind on any host: ACTIVE at once, never ACTIVE on hosts called "silent-...", binding fails on hosts called "refuse-...".
Volumes are of type "dataless" or "multiattach"; their connections look like iSCSI with CHAP.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import uuid
import warnings
from collections.abc import Iterator
from typing import IO, Any

import pytest
import requests
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import session as ks_session
from keystoneauth1.identity import v3

from tests.guest import cache_directory
from tests.support.cloud import Services

LOCAL = pathlib.Path(__file__).resolve().parents[2] / "devstack" / "local"
PROJECTS = {"admin": "admin", "nova_lite": "service"}
OWN = ("demo", "alt_demo")
OURS = "started-by-tests"      # the file that tells this stack from one made by hand
_TYPES = {"glance": "image", "neutron": "network", "cinder": "volumev3", "keystone": "identity", "compute": "compute"}


class Neighbours:
    """A running stack; ``facts`` is its stack.json. The users "demo" and "alt_demo" are new ones, known as ``demo-SUFFIX``."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory, self._suffix = directory, uuid.uuid4().hex[:8]
        self.facts: dict[str, Any] = json.loads((directory / "stack.json").read_text())
        self._sessions: dict[str, ks_session.Session] = {}

    # --- as a client
    def credentials(self, user: str = "demo") -> dict[str, str]:
        """What keystoneauth's password plugin takes: admin, demo, alt_demo in projects of their names, nova_lite in service."""
        name = user if user in PROJECTS else self._own(user)
        return {"auth_url": self.facts["keystone"], "username": name, "password": self.facts["password"],
                "project_name": PROJECTS.get(user, name), "user_domain_name": "Default", "project_domain_name": "Default"}

    def session(self, user: str = "demo") -> ks_session.Session:
        """A session of keystoneauth1, kept."""
        if user not in self._sessions:
            self._sessions[user] = ks_session.Session(v3.Password(**self.credentials(user)), timeout=60)
        return self._sessions[user]

    def token(self, user: str = "demo") -> str:
        """A valid token."""
        return str(self.session(user).get_token())

    def project_id(self, user: str = "demo") -> str:
        """The id of the user's project."""
        return str(self.session(user).get_project_id())

    def url(self, service: str) -> str:
        """The root of keystone, glance, neutron, cinder (no version), or of the compute API as in the catalog."""
        return f"http://{self.facts['host']}:{self.facts['ports'][service]}"

    def call(self, method: str, service: str, path: str, user: str = "demo", status: int | None = None, **kwargs: Any) -> Any:
        """One request, the JSON of its answer. ``path`` follows the endpoint in the catalog, so it names the version for glance
        (/v2/images) and neutron (/v2.0/ports), but not for cinder (/volumes). Asserts ``status``, or any below 400."""
        answer = self.session(user).request(path, method, endpoint_filter={"service_type": _TYPES[service]}, raise_exc=False,
                                            authenticated=True, connect_retries=3, **kwargs)
        expected = answer.status_code == status if status else answer.status_code < 400
        assert expected, f"{method} {service}{path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content and "json" in answer.headers.get("Content-Type", "") else answer

    def network_id(self, name: str = "private") -> str:
        """The id of a network: "private" of demo, with 10.11.0.0/16, or "public"."""
        mine = f"&project_id={self.project_id()}" if name == "private" else ""
        return str(self.call("GET", "neutron", f"/v2.0/networks?name={name}{mine}", "admin")["networks"][0]["id"])

    def image_id(self) -> str:
        """The public image "tiny" (some zeros)."""
        return str(self.call("GET", "glance", "/v2/images?name=tiny")["images"][0]["id"])

    # --- the users of this session
    def _own(self, user: str) -> str:
        return f"{user}-{self._suffix}"

    def begin(self) -> Neighbours:
        """Make the session's users with their projects, and demo's network."""
        roles = {r["name"]: r["id"] for r in self.call("GET", "keystone", "/roles", "admin")["roles"]}
        for name in map(self._own, OWN):
            project = self.call("POST", "keystone", "/projects", "admin",
                                json={"project": {"name": name, "domain_id": "default"}})["project"]["id"]
            user = self.call("POST", "keystone", "/users", "admin", json={"user": {
                "name": name, "domain_id": "default", "password": self.facts["password"]}})["user"]["id"]
            for role in ("member", "reader"):
                self.call("PUT", "keystone", f"/projects/{project}/users/{user}/roles/{roles[role]}", "admin")
        network = self.call("POST", "neutron", "/v2.0/networks", json={"network": {"name": "private"}})["network"]["id"]
        self.call("POST", "neutron", "/v2.0/subnets", json={"subnet": {
            "network_id": network, "ip_version": 4, "cidr": "10.11.0.0/16", "name": "private-subnet"}})
        return self

    def end(self) -> None:
        """Delete them again, with what they have left at Neutron."""
        for user in OWN:
            project = self.project_id(user)
            for what in ("floatingips", "ports", "networks", "security-groups"):
                for one in self.call("GET", "neutron", f"/v2.0/{what}?project_id={project}", "admin")[what.replace("-", "_")]:
                    with contextlib.suppress(AssertionError):       # what a router holds, and the like: nobody minds
                        self.call("DELETE", "neutron", f"/v2.0/{what}/{one['id']}", "admin")
            self.call("DELETE", "keystone", f"/users/{self.session(user).get_user_id()}", "admin")
            self.call("DELETE", "keystone", f"/projects/{project}", "admin")

    # --- for nova_lite's own services
    def options(self) -> dict[str, str]:
        """Options of :class:`Services` that make nova_lite use these neighbours, all drivers included."""
        who = {"auth_type": "password", **self.credentials("nova_lite")}
        return {"api__auth_strategy": "keystone", "image__driver": "glance", "network__driver": "neutron",
                "volume__driver": "cinder", "metadata__shared_secret": self.facts["password"],
                **{f"{group}__{k}": v for group in ("service_user", "keystone_authtoken") for k, v in who.items()},
                "keystone_authtoken__www_authenticate_uri": self.facts["keystone"],
                "keystone_authtoken__memcached_servers": self.facts["memcached"],
                "keystone_authtoken__service_token_roles": "service",
                "keystone_authtoken__service_token_roles_required": "true"}

    def new_database(self) -> str:
        """The URL of an empty database of the stack's MariaDB."""
        name = f"nova_lite_{uuid.uuid4().hex[:10]}"
        subprocess.run(["mariadb", "--no-defaults", "-uroot", f"--socket={self.directory}/run/mysql.sock", "-e",
                        f"CREATE DATABASE {name} CHARACTER SET utf8mb4"], check=True)
        return str(self.facts["database"]).replace("{name}", name)

    def new_broker(self) -> str:
        """The transport_url of a new virtual host of the stack's RabbitMQ: other clouds' messages are not seen in it."""
        name, rabbit = uuid.uuid4().hex[:10], self.facts["rabbitmq"]
        env = {**os.environ, "HOME": rabbit["home"], "ERL_EPMD_PORT": str(rabbit["epmd"])}
        for command in (["add_vhost", name], ["set_permissions", "-p", name, "stack", ".*", ".*", ".*"]):
            subprocess.run(["/usr/lib/rabbitmq/bin/rabbitmqctl", "-q", "-n", rabbit["node"], *command], check=True, env=env,
                           stdout=subprocess.DEVNULL)
        return f"{self.facts['broker']}{name}"

    def services(self, directory: pathlib.Path, env: dict[str, str] | None = None, **options: object) -> Services:
        """Five processes of nova_lite on a database and virtual host of their own, not started yet. For what Neutron and Cinder
        tell Nova (external events) let them listen where the catalog says: inside :meth:`catalog_ports`, with its options."""
        made = Services(directory, self.new_broker(), self.new_database(), env, **{**self.options(), **options})
        made.token = self.token("admin")
        return made

    @contextlib.contextmanager
    def with_service(self, service_type: str, url: str) -> Iterator[None]:
        """A service more in Keystone's catalog, for one session of this machine at a time: waits for the lock."""
        with _lock(self.directory, service_type, fcntl.LOCK_EX):
            for left in self.call("GET", "keystone", f"/services?type={service_type}", "admin")["services"]:
                self.call("DELETE", "keystone", f"/services/{left['id']}", "admin")     # of one that was killed
            service = {"type": service_type, "name": service_type}
            made = self.call("POST", "keystone", "/services", "admin", json={"service": service})["service"]["id"]
            try:
                for interface in ("public", "internal"):
                    self.call("POST", "keystone", "/endpoints", "admin", json={"endpoint": {
                        "service_id": made, "interface": interface, "region_id": self.facts["region"], "url": url}})
                yield
            finally:
                self.call("DELETE", "keystone", f"/services/{made}", "admin")

    @contextlib.contextmanager
    def catalog_ports(self) -> Iterator[dict[str, int]]:
        """``api__port`` and ``metadata__port`` of the catalog, for one cloud of this machine at a time: waits for the lock."""
        with _lock(self.directory, "compute", fcntl.LOCK_EX):
            yield {"api__port": self.facts["ports"]["compute"], "metadata__port": self.facts["ports"]["metadata"]}


@pytest.fixture(scope="session")
def neighbours() -> Iterator[Neighbours]:
    """The stack; skipped where it cannot run."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("the neighbours need root and Debian")
    directory = pathlib.Path(os.environ.get("NOVA_LITE_NEIGHBOURS") or cache_directory() / "neighbours")
    with _lock(directory, "start", fcntl.LOCK_EX):
        users = _open(directory, "users")
        if not _answers(directory):
            _start(directory, users)
        fcntl.flock(users, fcntl.LOCK_SH)
    try:
        made = Neighbours(directory).begin()
        yield made
        try:
            made.end()
        except (AssertionError, requests.RequestException, ks_exceptions.ClientException) as error:
            warnings.warn(f"the session's users were not deleted: {error}", stacklevel=1)
    finally:
        with _lock(directory, "start", fcntl.LOCK_EX), users:
            fcntl.flock(users, fcntl.LOCK_UN)
            with contextlib.suppress(BlockingIOError):     # another session still uses it and will stop it
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if (directory / OURS).exists():
                    _run("unstack.sh", directory, "--wipe")


def _start(directory: pathlib.Path, users: IO[str]) -> None:
    """Make the stack, or start again what has died of it. One of the tests that no session uses was left by sessions that were
    killed, perhaps before the machine was started anew: it goes, with what they left in it."""
    if (directory / OURS).exists() and (directory / "run").exists():
        with contextlib.suppress(BlockingIOError):      # somebody uses it
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _run("unstack.sh", directory, "--wipe")
    if not any((directory / "run").glob("*.pid")):      # nobody has started one there by hand
        directory.mkdir(parents=True, exist_ok=True)
        (directory / OURS).touch()
    _run("stack.sh", directory, "--api-only", "--neighbours-only")


def again(directory: pathlib.Path) -> None:
    """Run stack.sh once more on the stack of ``directory``, while it is used."""
    with _lock(directory, "start", fcntl.LOCK_EX):
        _run("stack.sh", directory, "--api-only", "--neighbours-only")


def _answers(directory: pathlib.Path) -> bool:
    if not (directory / "stack.json").exists():
        return False
    facts = json.loads((directory / "stack.json").read_text())
    try:
        return facts["kind"] == "api" and all(
            requests.get(f"http://{facts['host']}:{facts['ports'][name]}/", timeout=10).status_code < 500
            for name in ("keystone", "glance", "neutron", "cinder"))
    except requests.RequestException:
        return False


def _run(script: str, directory: pathlib.Path, *arguments: str) -> None:
    env = {**os.environ, "STACK_DIR": str(directory),
           "STACK_PORT_BASE": os.environ.get("NOVA_LITE_NEIGHBOURS_PORTS", "23000")}
    done = subprocess.run([LOCAL / script, *arguments], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"{script} failed:\n{done.stdout}"


def _open(directory: pathlib.Path, name: str) -> IO[str]:
    """A file to lock, beside the directory, which comes and goes."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    return open(directory.with_name(f"{directory.name}.{name}.lock"), "w")


@contextlib.contextmanager
def _lock(directory: pathlib.Path, name: str, kind: int) -> Iterator[None]:
    with _open(directory, name) as file:
        fcntl.flock(file, kind)
        yield
