"""The Compute API on an empty SQLite database, asked by WSGI; every answer is held against its route's response schema."""
from __future__ import annotations

import functools
import json
import pathlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy as sa
import webob

from nova_lite import conf as nova_conf
from nova_lite import units
from nova_lite.api import app, auth
from nova_lite.api.openstack import registry, router, rules
from nova_lite.db import flavors, instances, models, secret_keys
from nova_lite.objects.flavor import Flavor
from nova_lite.policy import Policy
from tests.unit.db.databases import URLS, empty_database

SAMPLES: dict[str, dict[str, list[str]]] = json.loads((pathlib.Path(__file__).parent / "sample_keys.json").read_text())
_FREE_KEYS = {"metadata", "extra_specs", "cpu_info", "hosts", "rules", "links"}
TABLE = registry.Registry(registry.load_modules(), check_schemas=True)
"""All routes; what a test needs of them is checked and compiled once for all tests of a process."""


@functools.cache
def default_policy() -> Policy:
    """The rules without a policy file, read once for all tests of a process."""
    return Policy(nova_conf.load([], config_files=[]), rules.installed())


@dataclass(frozen=True)
class Client:
    """A caller at one microversion. The verbs assert the status and give the JSON of the answer, None without any."""

    app: Any
    user: str = "fake"
    project: str = "project1"
    roles: tuple[str, ...] = ("member", "reader")
    version: str = "2.1"

    def at(self, version: str) -> Client:
        """The same caller at another microversion."""
        return replace(self, version=version)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> webob.Response:
        """The bare answer, whatever its status."""
        request = webob.Request.blank(path, method=method, base_url="http://localhost:8774/v2.1")
        request.headers.update({"X-Auth-Token": f"{self.user}:{self.project}", "X-Roles": ",".join(self.roles),
                                "OpenStack-API-Version": f"compute {self.version}", **headers})
        if body is not None:
            request.body = json.dumps(body).encode()
            request.content_type = "application/json"
        return request.get_response(self.app)

    def ask(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """The JSON of an answer with this status."""
        response = self.call(method, path, body)
        assert response.status_code == status, f"{method} {path} at {self.version}: {response.status} {response.text}"
        return response.json_body if response.body else None

    def get(self, path: str, status: int = 200) -> Any:
        return self.ask("GET", path, None, status)

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        return self.ask("POST", path, body, status)

    def put(self, path: str, body: Any, status: int = 200) -> Any:
        return self.ask("PUT", path, body, status)

    def delete(self, path: str, status: int = 204) -> Any:
        return self.ask("DELETE", path, None, status)

    def fault(self, method: str, path: str, status: int, body: Any = None) -> str:
        """The message of a fault with this status."""
        (fault,) = self.ask(method, path, body, status).values()
        assert fault["code"] == status
        return fault["message"]


class Cloud:
    """The API and its database; ``add_*`` put rows there that other services would."""

    def __init__(self, services: app.Services) -> None:
        self.services = services
        self.conf, self.db = services.conf, services.db
        self.app = auth.NoAuth2(auth.ContextFilter(router.Router(services, TABLE, validate_responses=True)))

    def client(self, user: str = "fake", project: str = "project1", roles: tuple[str, ...] = ("member", "reader"),
               version: str = "2.1") -> Client:
        return Client(self.app, user, project, roles, version)

    def insert(self, table: sa.Table, **values: Any) -> int:
        """A row; its number."""
        def insert(conn: sa.Connection) -> int:
            return conn.execute(sa.insert(table).values(created_at=units.utcnow(), **values)).inserted_primary_key[0]
        return self.db.write(insert)

    def add_service(self, host: str, binary: str = "nova-compute", **values: Any) -> dict[str, Any]:
        values = {"uuid": str(uuid.uuid4()), "host": host, "binary": binary, "last_seen_at": units.utcnow(), **values}
        return {"id": self.insert(models.services, **values), **values}

    def add_node(self, host: str, **values: Any) -> dict[str, Any]:
        """A compute node without a service."""
        values = {"uuid": str(uuid.uuid4()), "host": host, "hypervisor_hostname": host, "hypervisor_type": "fake",
                  "hypervisor_version": 1000, "host_ip": "192.0.2.1", "cpu_info": {"arch": "x86_64"}, "vcpus": 4,
                  "memory_mb": 8192, "local_gb": 100, **values}
        return {"id": self.insert(models.compute_nodes, **values), **values}

    def add_flavor(self, name: str = "m1.tiny", **values: Any) -> Flavor:
        values = {"flavorid": name, "name": name, "memory_mb": 512, "vcpus": 1, "root_gb": 1, **values}
        return self.db.write(flavors.create, values)

    def add_server(self, **values: Any) -> str:
        """An active server; its uuid."""
        flavor = Flavor("1", "m1.tiny", 512, 1, 1)
        values = {"uuid": str(uuid.uuid4()), "project_id": "project1", "user_id": "fake", "display_name": "server",
                  "vm_state": "active", "power_state": 1, "flavor": flavor, **values}
        self.db.write(instances.create_many, [values])
        return values["uuid"]

    def delete_server(self, server: str) -> None:
        """The server is gone, as a compute host would leave it."""
        self.db.write(instances.mark_deleted, server)

    def add_claim(self, node: dict[str, Any], server: str) -> None:
        """Room on a node for a server that is still to come."""
        self.insert(models.allocations, instance_uuid=server, compute_node_id=node["id"], vcpus=1, memory_mb=1, disk_gb=1)

    @contextmanager
    def statements(self) -> Iterator[list[str]]:
        """The SQL that runs meanwhile."""
        seen: list[str] = []

        def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            seen.append(statement)
        sa.event.listen(self.db.engine, "before_cursor_execute", note)
        try:
            yield seen
        finally:
            sa.event.remove(self.db.engine, "before_cursor_execute", note)


@pytest.fixture
def options() -> dict[str, Any]:
    """Override this fixture to set options of nova_lite: group__name."""
    return {}


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def cloud(request: pytest.FixtureRequest, tmp_path: pathlib.Path,
          options: dict[str, Any]) -> Iterator[Cloud]:
    """A cloud on each of the databases."""
    (tmp_path / "nova-lite.conf").write_text(f"[DEFAULT]\ntransport_url = in-process:///{uuid.uuid4()}\n")
    with empty_database(request.param, tmp_path) as url:
        conf = nova_conf.load([], config_files=[str(tmp_path / "nova-lite.conf")], **{
            "state_path": str(tmp_path), "database__connection": url, "network__driver": "bridge",
            "image__driver": "local", **options})
        secret_keys.ensure(conf)
        services = app.make_services(conf, policy=default_policy())
        yield Cloud(services)
        services.db.dispose()


@pytest.fixture
def admin(cloud: Cloud) -> Client:
    return cloud.client("admin", "admin", ("admin",))


@pytest.fixture
def member(cloud: Cloud) -> Client:
    return cloud.client()


def key_paths(value: Any, path: str = "") -> set[str]:
    """Every key of a document with the keys above it; what has keys of the user's choice is not looked into."""
    if isinstance(value, dict):
        found: set[str] = set()
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            found.add(here)
            if key not in _FREE_KEYS and not key.endswith("_links"):
                found |= key_paths(inner, here)
        return found
    if isinstance(value, list):
        return set().union(*(key_paths(item, f"{path}[]") for item in value))
    return set()


def assert_like_sample(answer: Any, sample: str, version: str) -> None:
    """The answer has the keys of Nova's own sample at this microversion, no more and no fewer."""
    assert key_paths(answer) == set(SAMPLES[sample][version]), f"{sample} at {version}"


def sample_versions(sample: str) -> list[str]:
    """The microversions at which Nova's sample changes."""
    return list(SAMPLES[sample])
