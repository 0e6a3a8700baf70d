"""The embedded Block Storage API over WSGI, as the stock clients call it."""
from __future__ import annotations

import os
import uuid

import pytest
import webob

from nova_lite import conf as conf_module
from nova_lite.context import admin_context
from nova_lite.embedded.api import volume as volume_api
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.embedded.volume.local import LocalVolumes

USERS = {"admin": ("admin", ["admin", "member", "reader"]), "demo": ("demo", ["member", "reader"]),
         "other": ("other", ["member", "reader"])}
SERVICE, SERVER = admin_context(), str(uuid.uuid4())


@pytest.fixture
def conf(tmp_path):
    return conf_module.load([], config_files=[], state_path=str(tmp_path))


@pytest.fixture
def cloud(conf):
    """send(user, method, path, body) -> answer"""
    identity, app = LocalIdentity(f"{conf.state_path}/identity"), volume_api.factory(conf)
    passwords = identity.ensure(USERS)
    tokens = {name: identity.authenticate(name, passwords[name], name) for name in USERS}

    def send(user, method, path, body=None, status=None):
        text, token = tokens[user] if user else ("", None)
        project = token.project_id if token else ""
        request = webob.Request.blank("/v3" + path.replace("{project}", project), method=method, headers={"X-Auth-Token": text})
        if body is not None:
            request.json = body
        answer = request.get_response(app)
        assert answer.status_code == status or (status is None and answer.status_code < 300), answer.text
        return answer.json if answer.body else None

    return send


def test_an_api_that_starts_removes_what_killed_ones_have_left(conf, tmp_path):
    left = tmp_path / "volumes" / f"{uuid.uuid4()}.raw"
    left.parent.mkdir()
    left.touch()
    os.utime(left, (1, 1))
    volume_api.factory(conf)
    assert not left.exists()


def _new(cloud, user="demo", **values):
    return cloud(user, "POST", "/volumes", {"volume": {"size": 1, "name": "data", **values}}, 202)["volume"]


@pytest.mark.parametrize("root", ["", "/{project}"])
def test_the_life_of_a_volume_with_and_without_a_project_in_the_path(cloud, root):
    made = cloud("demo", "POST", f"{root}/volumes", {"volume": {"size": 1, "name": "a", "metadata": {"k": "v"}}}, 202)["volume"]
    assert (made["status"], made["size"], made["bootable"], made["attachments"], made["metadata"]) == (
        "available", 1, "false", [], {"k": "v"})
    path = f"{root}/volumes/{made['id']}"
    assert cloud("demo", "GET", path)["volume"] == made
    assert [v["id"] for v in cloud("demo", "GET", f"{root}/volumes/detail")["volumes"]] == [made["id"]]
    assert [v["name"] for v in cloud("demo", "GET", f"{root}/volumes?name=a")["volumes"]] == ["a"]
    assert cloud("demo", "GET", f"{root}/volumes?name=b")["volumes"] == []
    assert cloud("demo", "PUT", path, {"volume": {"name": "b"}})["volume"]["name"] == "b"
    cloud("demo", "POST", f"{path}/action", {"os-extend": {"new_size": 2}}, 202)
    cloud("demo", "POST", f"{path}/action", {"os-set_bootable": {"bootable": True}}, 202)
    cloud("demo", "POST", f"{path}/metadata", {"metadata": {"x": "y"}})
    cloud("demo", "DELETE", f"{path}/metadata/k")
    shown = cloud("demo", "GET", path)["volume"]
    assert (shown["size"], shown["bootable"], shown["metadata"]) == (2, "true", {"x": "y"})
    cloud("demo", "DELETE", path, status=202)
    cloud("demo", "GET", path, status=404)
    cloud("demo", "DELETE", path, status=404)


def test_a_volume_in_use_shows_its_server_and_cannot_be_deleted(cloud, conf):
    volume, volumes = _new(cloud), LocalVolumes(conf)
    attachment = volumes.reserve(SERVICE, volume["id"], SERVER)
    volumes.connect(SERVICE, attachment.id, {"mountpoint": "/dev/vdc"})
    volumes.complete(SERVICE, attachment.id)
    shown = cloud("demo", "GET", f"/volumes/{volume['id']}")["volume"]
    [told] = shown["attachments"]
    assert (shown["status"], told["server_id"], told["attachment_id"], told["device"]) == (
        "in-use", SERVER, attachment.id, "/dev/vdc")
    assert [a["instance"] for a in cloud("demo", "GET", "/attachments")["attachments"]] == [SERVER]
    assert cloud("other", "GET", "/attachments")["attachments"] == []
    cloud("demo", "DELETE", f"/volumes/{volume['id']}", status=400)


def test_a_snapshot_and_a_volume_of_it(cloud):
    volume = _new(cloud, size=2)
    made = cloud("demo", "POST", "/snapshots", {"snapshot": {"volume_id": volume["id"], "name": "s"}}, 202)["snapshot"]
    assert cloud("demo", "GET", f"/snapshots/{made['id']}")["snapshot"]["size"] == 2
    assert [s["name"] for s in cloud("demo", "GET", "/snapshots/detail?name=s")["snapshots"]] == ["s"]
    assert _new(cloud, size=None, snapshot_id=made["id"])["size"] == 2
    cloud("other", "GET", f"/snapshots/{made['id']}", status=404)
    cloud("other", "DELETE", f"/snapshots/{made['id']}", status=404)
    cloud("demo", "DELETE", f"/snapshots/{made['id']}", status=202)


def test_who_sees_what(cloud):
    mine, other = _new(cloud), _new(cloud, "other")
    assert [v["id"] for v in cloud("demo", "GET", "/volumes/detail?all_tenants=1")["volumes"]] == [mine["id"]]
    assert {v["id"] for v in cloud("admin", "GET", "/volumes/detail?all_tenants=1")["volumes"]} == {mine["id"], other["id"]}
    assert cloud("admin", "GET", "/volumes/detail")["volumes"] == []
    assert cloud("admin", "GET", f"/volumes/{mine['id']}")["volume"]["os-vol-tenant-attr:tenant_id"] == \
        mine["os-vol-tenant-attr:tenant_id"]
    for method, body in (("GET", None), ("PUT", {"volume": {"name": "x"}}), ("DELETE", None)):
        cloud("demo", method, f"/volumes/{other['id']}", body, 404)
    cloud("demo", "GET", f"/{mine['os-vol-tenant-attr:tenant_id']}/volumes")
    cloud("demo", "GET", f"/{other['os-vol-tenant-attr:tenant_id']}/volumes", status=404)
    cloud(None, "GET", "/volumes", status=401)


@pytest.mark.parametrize(("body", "status"), [
    ({}, 400), ({"volume": None}, 400), ({"volume": {}}, 400), ({"volume": {"size": "big"}}, 400),
    ({"volume": {"size": 0}}, 400),
    ({"volume": {"size": True}}, 400), ({"volume": {"size": -1}}, 400), ({"volume": {"size": 1, "volume_type": "fast"}}, 404),
    ({"volume": {"size": 1, "imageRef": "no-such-image"}}, 404), ({"volume": {"snapshot_id": "x"}}, 404),
    ({"volume": {"size": 1, "source_volid": "x"}}, 400)])
def test_what_cannot_be_made(cloud, body, status):
    cloud("demo", "POST", "/volumes", body, status)
    assert cloud("demo", "GET", "/volumes")["volumes"] == []


@pytest.mark.parametrize(("field", "wrong"), [
    *((field, (7, 1.5, True, [], ["x"], {"a": 1}, "a\0b", "\ud800", "x" * 256)) for field in (
        "name", "description", "imageRef", "snapshot_id", "volume_type", "availability_zone")),
    ("size", (None, 1.5, True, [], "x", "\u00b2", 10 ** 30, -1)),
    ("metadata", (7, "x", [], {"k": 7}, {"k": ["x"]}, {"k" * 256: "v"}))])
def test_a_field_of_the_wrong_type_is_refused_by_its_name(cloud, conf, field, wrong):
    conf.set_override("local_quota_gb", -1, group="volume")
    made = _new(cloud)
    for value in wrong:
        answer = cloud("demo", "POST", "/volumes", {"volume": {"size": 1, field: value}}, 400)
        assert (field if value != {"k": 7} and value != {"k": ["x"]} else "k") in answer["error"]["message"], value
        if field in ("name", "description", "metadata"):
            cloud("demo", "PUT", f"/volumes/{made['id']}", {"volume": {field: value}}, 400)
        if field in ("name", "description"):
            cloud("demo", "POST", "/snapshots", {"snapshot": {"volume_id": made["id"], field: value}}, 400)
        if field == "size":
            cloud("demo", "POST", f"/volumes/{made['id']}/action", {"os-extend": {"new_size": value}}, 400)
    cloud("demo", "POST", f"/volumes/{made['id']}/action", {"os-extend": {"new_size": 2 ** 31 - 1}}, 400)  # too large a file
    assert cloud("demo", "GET", "/volumes/detail?limit=%C2%B2")["volumes"] == [made]


@pytest.mark.parametrize("body", [{}, {"os-retype": {}}, {"os-extend": None}, {"os-extend": {"new_size": "x"}},
                                  {"os-set_bootable": {}}])
def test_an_action_that_does_not_exist_or_is_malformed(cloud, body):
    cloud("demo", "POST", f"/volumes/{_new(cloud)['id']}/action", body, 400)


def test_lists_in_pages(cloud):
    made = [_new(cloud)["id"] for _ in range(3)]
    first = cloud("demo", "GET", "/volumes?limit=2")["volumes"]
    rest = cloud("demo", "GET", f"/volumes?limit=2&marker={first[-1]['id']}")["volumes"]
    assert [v["id"] for v in first + rest] == made[::-1]


def test_types_limits_quotas_and_zones(cloud):
    assert [t["name"] for t in cloud("demo", "GET", "/types")["volume_types"]] == ["local", "multiattach"]
    assert cloud("demo", "GET", "/types/default")["volume_type"]["name"] == "local"
    assert _new(cloud, volume_type="multiattach")["multiattach"]
    cloud("demo", "GET", "/types/fast", status=404)
    used = cloud("demo", "GET", "/limits")["limits"]["absolute"]
    assert (used["totalVolumesUsed"], used["totalGigabytesUsed"], used["maxTotalVolumes"]) == (1, 1, -1)
    assert cloud("demo", "GET", "/os-quota-sets/{project}")["quota_set"]["volumes"] == -1
    assert cloud("demo", "GET", "/os-availability-zone")["availabilityZoneInfo"][0]["zoneName"] == "nova"


def test_versions(cloud, conf):
    answer = webob.Request.blank("/").get_response(volume_api.factory(conf))
    assert (answer.status_code, answer.json["versions"][0]["id"]) == (300, "v3.0")
    assert cloud(None, "GET", "/")["versions"][0]["links"][0]["href"].endswith("/v3/")
