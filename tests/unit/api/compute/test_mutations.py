"""A thousand random mutations of valid requests: whatever a client sends, the answer is never a 500."""
from __future__ import annotations

import copy
import random
import uuid
from typing import Any

import pytest
from sqlalchemy import delete

from nova_lite.context import RequestContext
from nova_lite.db import models
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import VERSIONS, Servers

ROUNDS = 1000
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2 ** 31, 2 ** 63, 2 ** 70, 1.5, -1e308, "", " ", "a", "0", "-1", "1" * 400, "x" * 70000,
    "\u0000", "\x1f", "caf\u00e9", "\U0001f600", "\ud800", "'; DROP TABLE instances; --", "%s%n", "../../etc/passwd", "none",
    "auto", "nova", "nova:host1", ":::", "2026-01-01T00:00:00Z", "9999-99-99", "::1", "192.0.2.1", "[", "(?", str(uuid.uuid4()),
    [], {}, [None], [[]], [{}], {"": None}, {"a": {"b": ["c"]}}, ["x"] * 200, {"uuid": None}, {"\u0000": "x"}]


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each part of a document."""
    found = [here]
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in parts:
        found += paths(inner, (*here, key))
    return found


def mutate(body: Any, dice: random.Random) -> Any:
    """A copy with one to three parts replaced, removed, doubled or added."""
    body = copy.deepcopy(body)
    for _ in range(dice.randint(1, 3)):
        *way, last = dice.choice(paths(body)) or (None,)
        if last is None:
            return dice.choice(VALUES)
        parent = body
        for key in way:
            parent = parent[key]
        kind = dice.randrange(5)
        if kind == 0:
            del parent[last]
        elif kind == 1 and isinstance(parent, dict):
            parent[dice.choice([str(v)[:300] for v in VALUES])] = dice.choice(VALUES)
        elif kind == 2 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        else:
            parent[last] = copy.deepcopy(dice.choice(VALUES))
    return body


def volume_requests(servers: Servers, server: str, volume: str) -> list[tuple[str, str, Any]]:
    """Servers that boot from volumes, and volumes of a server."""
    device = {"boot_index": 0, "source_type": "image", "destination_type": "volume", "uuid": servers.image, "volume_size": 1,
              "delete_on_termination": True, "device_name": "/dev/vda", "disk_bus": "virtio", "device_type": "disk",
              "guest_format": "ext4", "no_device": False}
    other = {"boot_index": None, "source_type": "blank", "destination_type": "volume", "volume_size": "1"}
    local = {"boot_index": -1, "source_type": "blank", "destination_type": "local", "guest_format": "swap", "volume_size": 0}
    old = [{"device_name": "vdb", "volume_id": volume, "delete_on_termination": "1", "volume_size": 1},
           {"virtual_name": "swap", "device_name": "vdc", "volume_size": 0}]
    attachment = {"volumeId": volume, "device": "/dev/vdb", "tag": "t", "delete_on_termination": True}
    path = f"/servers/{server}/os-volume_attachments"
    return [
        ("POST", "/servers", servers.body(imageRef="", networks="none", block_device_mapping_v2=[device, other, local])),
        ("POST", "/servers", servers.body(block_device_mapping_v2=[
            {**device, "destination_type": "local"}, {**other, "tag": "x", "volume_type": None}])),
        ("POST", "/servers", servers.body(block_device_mapping=old)),
        ("POST", path, {"volumeAttachment": attachment}), ("POST", path, {"volumeAttachment": {"volumeId": volume}}),
        ("PUT", f"{path}/{volume}", {"volumeAttachment": {**attachment, "id": volume, "serverId": server}})]


def requests(servers: Servers, server: str, group: str) -> list[tuple[str, str, Any]]:
    """Valid requests of every kind, with all that may stand in them."""
    create = servers.body(
        metadata={"a": "b"}, networks=[{"uuid": servers.network, "fixed_ip": "192.0.2.77", "tag": "t"}], accessIPv4="192.0.2.1",
        accessIPv6="2001:db8::1", availability_zone="nova", config_drive=True, key_name="k", min_count=1, max_count="1",
        security_groups=[{"name": "default"}], user_data="eA==", adminPass="p", return_reservation_id=False,
        block_device_mapping_v2=[{"boot_index": 0, "uuid": servers.image, "source_type": "image", "destination_type": "local",
                                  "delete_on_termination": True, "volume_size": 1}])
    create["server"]["OS-DCF:diskConfig"] = "AUTO"
    create["os:scheduler_hints"] = {"group": group, "same_host": server, "different_host": [server], "query": "[]"}
    newer = {"tags": ["a"], "trusted_image_certificates": None, "host": "host1", "hypervisor_hostname": "host1",
             "hostname": "hh", "description": "d"}
    plain = servers.body(networks="none", metadata={"a": "b"})
    path = f"/servers/{server}"
    return [
        ("POST", "/servers", create), ("POST", "/servers", {**create, "server": {**create["server"], **newer}}),
        ("POST", "/servers", plain), ("POST", "/servers", servers.body(personality=[{"path": "/a", "contents": "eA=="}])),
        ("PUT", path, {"server": {"name": "n", "accessIPv4": "192.0.2.1", "description": "d", "hostname": "hh",
                                  "OS-DCF:diskConfig": "AUTO", "pinned_availability_zone": "nova"}}),
        ("POST", f"{path}/metadata", {"metadata": {"a": "b", "c": "d"}}), ("PUT", f"{path}/metadata/a", {"meta": {"a": "b"}}),
        ("PUT", f"{path}/tags", {"tags": ["a", "b"]}),
        *[("POST", f"{path}/action", body) for body in (
            {"reboot": {"type": "HARD"}}, {"os-stop": None}, {"lock": {"locked_reason": "r"}}, {"unlock": None},
            {"os-getConsoleOutput": {"length": 5}}, {"os-resetState": {"state": "active"}}, {"pause": None}, {"suspend": {}},
            {"addFloatingIp": {"address": "203.0.113.1", "fixed_address": "192.0.2.5"}},
            {"removeFloatingIp": {"address": "::1"}},
            {"changePassword": {"adminPass": "p"}}, {"trigger_crash_dump": None}, {"injectNetworkInfo": None},
            {"addSecurityGroup": {"name": "default"}}, {"removeSecurityGroup": {"name": "default"}})]]


@pytest.fixture
def options() -> dict[str, Any]:
    return {"quota__instances": 50, "quota__cores": 50}


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_no_mutation_of_a_body_is_an_error_of_ours(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    servers = Servers(cloud)
    group = str(uuid.uuid4())
    cloud.insert(models.key_pairs, name="k", user_id="admin", type="ssh", fingerprint="f", public_key="ssh-rsa AAA")
    cloud.insert(models.server_groups, uuid=group, project_id="admin", user_id="admin", name="g", policy="affinity", rules={})
    admin = cloud.client("admin", "admin", ("admin",))
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "get_console_output", lambda *_: "text")
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "check_admin_password", lambda *_: None)
    server = servers.active(admin)
    dice = random.Random(seed)
    seen: dict[int, int] = {}
    for _ in range(ROUNDS // 4):
        method, path, body = dice.choice(requests(servers, server, group))
        version = dice.choice(VERSIONS)
        body = mutate(body, dice)
        answer = admin.at(version).call(method, path, body)
        assert answer.status_code < 500, (version, method, path, body, answer.text)
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        servers.set(server, vm_state="active", task_state=None, locked=False)
        if answer.status_code == 202 and path == "/servers":
            cloud.db.write(lambda c: c.execute(delete(models.instances).where(models.instances.c.uuid != server)))
    assert seen.get(400, 0) > 50, seen
    assert seen.get(202, 0) + seen.get(200, 0) > 5, seen


@pytest.mark.parametrize("seed", [1, 2])
def test_no_mutation_of_a_body_with_volumes_is_an_error_of_ours(cloud: Cloud, seed: int) -> None:
    servers, dice, seen = Servers(cloud), random.Random(seed), dict[int, int]()
    admin, volumes = cloud.client("admin", "admin", ("admin",)), cloud.services.volume
    server = servers.active(admin)
    user = RequestContext(project_id="admin", user_id="admin", auth_token="t", overwrite=False)
    volume = volumes.create(user, 1).id
    attached = {"id": "d", "source_type": "volume", "destination_type": "volume", "volume_id": volume, "tag": "t",
                "device_name": "/dev/vdb"}
    for _ in range(ROUNDS // 4):
        method, path, body = dice.choice(volume_requests(servers, server, volume))
        servers.set(server, block_devices=[attached] if method == "PUT" else None)
        version, body = dice.choice(VERSIONS), mutate(body, dice) if dice.random() < 0.9 else body
        answer = admin.at(version).call(method, path, body)
        assert answer.status_code < 500, (version, method, path, body, answer.text)
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        if answer.status_code < 300:
            for one in [*volumes.attachments(user, server), *volumes.attachments(user, _made(answer))]:
                volumes.release(user, one.id)
            cloud.db.write(lambda c: c.execute(delete(models.instances).where(models.instances.c.uuid != server)))
            cloud.db.write(lambda c: c.execute(delete(models.instance_actions)))
    assert seen.get(400, 0) > 50, seen
    assert sum(count for status, count in seen.items() if status < 300) > 10, seen


def _made(answer: Any) -> str:
    return (answer.json_body.get("server") or {}).get("id", "") if answer.body else ""


@pytest.mark.parametrize("seed", [1, 2])
def test_no_query_is_an_error_of_ours(cloud: Cloud, seed: int) -> None:
    servers = Servers(cloud)
    admin = cloud.client("admin", "admin", ("admin",))
    servers.active(admin)
    dice = random.Random(seed)
    names = ["name", "status", "image", "flavor", "ip", "ip6", "changes-since", "changes-before", "all_tenants", "tags",
             "not-tags-any", "locked", "config_drive", "power_state", "launched_at", "created_at", "progress", "host",
             "deleted", "limit", "marker", "sort_key", "sort_dir", "uuid", "vm_state", "project_id", "key_name", "launch_index"]
    texts = [str(value)[:3000] for value in VALUES if isinstance(value, (str, int, float)) and value != "\ud800"]
    texts += ["%ff", "&", "=", "created_at", "host", "asc", "active", "%5B", "%28%3F", "a,b", ",", "0", "running"]
    for _ in range(ROUNDS // 4):
        query = "&".join(f"{dice.choice(names)}={text if (text := dice.choice(texts)).startswith('%') else _quote(text)}"
                         for _ in range(dice.randint(1, 3)))
        for path in ("/servers", "/servers/detail"):
            answer = admin.at(dice.choice(VERSIONS)).call("GET", f"{path}?{query}")
            assert answer.status_code < 500, (query, answer.text)


def _quote(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
