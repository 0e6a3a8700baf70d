"""What the schemas of requests take and refuse, as Nova 34 does: differences that a comparison of all schemas has found."""
from __future__ import annotations

import pytest

from tests.unit.api.compute.conftest import Client, Cloud

QUERIES = [
    # several moments are taken, the last one counts
    ("2.1", "/servers?changes-since=2020-01-01T00:00:00Z&changes-since=2021-01-01T00:00:00Z", 200),
    ("2.66", "/servers?changes-before=2020-01-01T00:00:00Z&changes-before=2021-01-01T00:00:00Z", 200),
    ("2.66", "/servers/{server}/os-instance-actions?changes-before=2020-01-01T00:00:00Z", 200),
    ("2.66", "/servers/{server}/os-instance-actions?changes-before=2020-01-01T00:00:00Z&changes-before=2021-01-01T00:00:00Z",
     400),
    # filters that are expressions: not empty, not broken
    *[("2.1", f"/servers?{name}=", 400) for name in ("name", "ip", "key_name", "power_state", "created_at", "node")],
    *[("2.1", f"/servers?{name}=%28", 400) for name in ("key_name", "flavor", "launched_at", "progress")],
    *[("2.26", f"/servers?{name}=", 400) for name in ("tags", "tags-any", "not-tags", "not-tags-any")],
    ("2.26", "/servers?tags=%5B", 400), ("2.26", "/servers?tags=a,b", 200), ("2.1", "/servers?power_state=1", 200),
    ("2.1", "/servers?status=&host=&uuid=", 200),
    # hypervisors: strict from 2.53 on, each parameter once
    ("2.52", "/os-hypervisors?unknown=1", 200), ("2.53", "/os-hypervisors?unknown=1", 400),
    ("2.53", "/os-hypervisors/detail?unknown=1", 400), ("2.53", "/os-hypervisors/statistics?unknown=1", 200),
    ("2.33", "/os-hypervisors?limit=1&limit=2", 200), ("2.53", "/os-hypervisors?limit=1&limit=2", 400),
    ("2.53", "/os-hypervisors?marker=a&marker=b", 400),
    ("2.53", "/os-hypervisors?hypervisor_hostname_pattern=a%20b", 400),
    # limits: "reserved" is a parameter of long ago
    ("2.74", "/limits?reserved=1", 200), ("2.75", "/limits?reserved=1", 400),
    # images: pages of at least one
    *[("2.1", f"/images?{name}={value}", 400) for name in ("limit", "page_size", "offset") for value in ("0", "x", "-1")],
    ("2.1", "/images?limit=1&page_size=1&offset=1", 200)]


@pytest.mark.parametrize(("version", "path", "status"), QUERIES)
def test_queries(cloud: Cloud, admin: Client, version: str, path: str, status: int) -> None:
    cloud.add_node("host1")
    server = cloud.add_server()
    admin.at(version).get(path.format(server=server), status)
