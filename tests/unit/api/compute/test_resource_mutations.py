"""Requests for what is no server, changed at random a thousand times: whatever comes, it is never our fault (500)."""
from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api.compute.conftest import Client, Cloud

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW9hu0H1Lr/gHBMkNDqQg2SlQ3kEwDBgPbdGbUxH5Iy"
BODIES: list[tuple[str, str, Any]] = [
    ("POST", "/flavors", {"flavor": {"name": "n", "ram": 1, "vcpus": 1, "disk": 1, "id": "9", "swap": 1, "rxtx_factor": 1.0,
                                     "os-flavor-access:is_public": True, "OS-FLV-EXT-DATA:ephemeral": 1}}),
    ("PUT", "/flavors/f", {"flavor": {"description": "text"}}),
    ("POST", "/flavors/f/os-extra_specs", {"extra_specs": {"hw:numa_nodes": "1", "a": "b"}}),
    ("PUT", "/flavors/f/os-extra_specs/a", {"a": "b"}),
    ("POST", "/flavors/f/action", {"addTenantAccess": {"tenant": "p"}}),
    ("POST", "/os-keypairs", {"keypair": {"name": "k", "public_key": KEY, "type": "ssh", "user_id": "u"}}),
    ("PUT", "/os-services/disable-log-reason", {"host": "host1", "binary": "nova-compute", "disabled_reason": "r"}),
    ("PUT", "/os-services/11111111-2222-3333-4444-555555555555", {"status": "disabled", "disabled_reason": "r"}),
    ("POST", "/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z"}}),
    ("PUT", "/os-aggregates/1", {"aggregate": {"name": "b", "availability_zone": "z"}}),
    ("POST", "/os-aggregates/1/action", {"add_host": {"host": "host1"}}),
    ("POST", "/os-aggregates/1/action", {"set_metadata": {"metadata": {"k": "v", "availability_zone": "x"}}}),
    ("POST", "/os-server-groups", {"server_group": {"name": "g", "policy": "anti-affinity",
                                                    "rules": {"max_server_per_host": 1}}}),
    ("PUT", "/os-quota-sets/p", {"quota_set": {"cores": 5, "force": True, "instances": "7"}}),
    ("POST", "/os-security-groups", {"security_group": {"name": "n", "description": "d"}}),
    ("POST", "/os-security-group-rules", {"security_group_rule": {
        "parent_group_id": "11111111-2222-3333-4444-555555555555", "ip_protocol": "tcp", "from_port": 1, "to_port": "2",
        "cidr": "10.0.0.0/8"}}),
    ("POST", "/os-volumes", {"volume": {"size": "1", "display_name": "n", "display_description": "d", "metadata": {"a": "b"},
                                        "snapshot_id": "s", "volume_type": "local", "availability_zone": "nova"}}),
    ("POST", "/os-snapshots", {"snapshot": {"volume_id": "v", "force": "true", "display_name": "n"}}),
    ("POST", "/os-floating-ips", {"pool": "public"}),
    ("PUT", "/os-hosts/host1", {"status": "disable"}),
    ("PUT", "/os-quota-class-sets/default", {"quota_class_set": {"cores": 5}}),
]
QUERIES = ["/flavors?limit=1&marker=f&minRam=1&minDisk=1&is_public=None&sort_key=name&sort_dir=asc", "/limits?tenant_id=p",
           "/os-keypairs?limit=1&marker=k&user_id=u", "/os-hypervisors?limit=1&marker=1", "/os-services?host=h&binary=b",
           "/os-hypervisors/1", "/os-aggregates/1", "/os-server-groups?limit=1&offset=1&all_projects=1",
           "/os-quota-sets/p?user_id=u", "/images?limit=1&minRam=1&changes-since=2020-01-01T00:00:00Z", "/flavors/f",
           "/os-hypervisors/h/search", "/os-quota-class-sets/default", "/os-networks/x",
           "/os-simple-tenant-usage?detailed=1&start=2020-01-01T00:00:00&end=2020-01-02T00:00:00&limit=1&marker=m",
           "/os-simple-tenant-usage/p?start=2020-01-01T00:00:00&end=2020-01-02T00:00:00&limit=1&marker=m",
           "/os-migrations?host=h&status=s&limit=1&changes-since=2020-01-01T00:00:00Z&user_id=u",
           "/os-security-groups?limit=1&offset=1&all_tenants=1", "/os-security-groups/x", "/os-floating-ips/x",
           "/os-volumes?limit=1&offset=1", "/os-volumes/x", "/os-snapshots/detail?limit=1&offset=1", "/os-snapshots/x",
           "/os-hosts?zone=z", "/os-hosts/h", "/os-instance_usage_audit_log/2020-01-01%2000:00:00"]
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 2 ** 31, 2 ** 63, 10 ** 300, 1e300, "", " ", "x" * 256, "x" * 70000, "9" * 5000, "-1",
    "\u00fc\u4e2d", "\U0001f600", "\ud800", "\0", "a:b", "a/b", "%s%(x)s", "'; --", [], {}, [[]], {"a": {"b": []}}, ["x"] * 300]
TEXTS = ["", "%20", "x" * 300, "9" * 5000, "-1", "1.5", "%C3%BC", "%F0%9F%98%80", "%25", "%27", "a%3Ab", "null", "%5B",
         "2" * 19, "%00", "%FF"]
VERSIONS = ["2.1", "2.11", "2.35", "2.53", "2.64", "2.75", "2.86", "2.92", "2.96", "2.102"]


def _spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each part of a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _spots(inner, (*path, key))


def _mutate(dice: random.Random, body: Any) -> Any:
    """The body with one part left out, added or replaced."""
    body = copy.deepcopy(body)
    path, value = dice.choice(list(_spots(body))), dice.choice(VALUES)
    if not path:
        return value
    holder = body
    for key in path[:-1]:
        holder = holder[key]
    what = dice.randrange(4)
    if what == 0:
        del holder[path[-1]]
    elif what == 1 and isinstance(holder, dict):
        holder[dice.choice(["unknown", "x" * 300, "", "\u00fc", path[-1] + " "])] = value
    else:
        holder[path[-1]] = value
    return body


@pytest.mark.parametrize("seed", range(4))
def test_bodies(cloud: Cloud, admin: Client, seed: int) -> None:
    dice = random.Random(seed)
    cloud.add_flavor("f")
    cloud.add_service("host1", uuid="11111111-2222-3333-4444-555555555555")
    admin.post("/os-aggregates", {"aggregate": {"name": "first"}})
    for _ in range(250):
        method, path, body = dice.choice(BODIES)
        body = _mutate(dice, body)
        answer = admin.at(dice.choice(VERSIONS)).call(method, path, body)
        assert answer.status_code < 500, (method, path, body, answer.text)


@pytest.mark.parametrize("seed", range(2))
def test_queries_and_paths(cloud: Cloud, admin: Client, seed: int) -> None:
    dice = random.Random(seed)
    cloud.add_flavor("f")
    for _ in range(250):
        path = dice.choice(QUERIES)
        part = dice.choice([part for part in path.replace("?", "/").replace("&", "/").split("/") if part][1:])
        name, equals, _ = part.partition("=")
        text = dice.choice(TEXTS)
        path = path.replace(part, f"{name}={text}" if equals else text, 1)
        answer = admin.at(dice.choice(VERSIONS)).call("GET", path)
        assert answer.status_code < 500, (path, answer.text)
