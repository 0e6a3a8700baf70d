"""Projects that an admin names are asked of Keystone, which only refuses those that are not there."""
from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from nova_lite import conf as nova_conf
from nova_lite.identity.projects import Projects
from tests.support.fake_openstack import Answer, Call, FakeOpenStack, write_conf
from tests.unit.api.compute.conftest import Cloud

QUOTAS, ADD, REMOVE = {"quota_set": {"cores": 5}}, "addTenantAccess", "removeTenantAccess"


def answer(call: Call) -> Answer:
    """Of /v3/projects/{what it is}."""
    status = {"there": 200, "secret": 403, "broken": 500}.get(call.path.rpartition("/")[2], 404)
    return Answer(status, {"error": {"code": status, "message": "words"}} if status > 200 else {"project": {}})


@pytest.fixture
def keystone(cloud: Cloud, tmp_path: pathlib.Path) -> Iterator[FakeOpenStack]:
    fake = FakeOpenStack("identity", answer, versions={"v3.14": "/v3/"})
    conf = nova_conf.load([], config_files=[write_conf(tmp_path / "keystone.conf", fake, retries=0)])
    cloud.services.projects = Projects(conf)
    cloud.add_flavor("private", is_public=False)
    yield fake
    fake.close()


def test_a_project_that_is_not_there_has_no_quotas(keystone, admin):
    for path in ("", "/detail", "/defaults", "?user_id=u"):
        assert admin.fault("GET", f"/os-quota-sets/typo{path}", 400) == "Project ID typo is not a valid project."
        admin.get(f"/os-quota-sets/there{path}")
    admin.fault("PUT", "/os-quota-sets/typo", 400, QUOTAS)
    admin.put("/os-quota-sets/there", QUOTAS)
    admin.delete("/os-quota-sets/typo", 202)        # what was left of one goes
    call = keystone.calls[0]
    assert (call.path, call.headers["X-Auth-Token"]) == ("/v3/projects/typo", "admin:admin")


def test_no_flavor_is_given_to_a_project_that_is_not_there(keystone, admin):
    path = "/flavors/private/action"
    assert "typo is not a valid project" in admin.fault("POST", path, 400, {ADD: {"tenant": "typo"}})
    assert admin.get("/flavors/private/os-flavor-access") == {"flavor_access": []}
    admin.post(path, {ADD: {"tenant": "there"}})
    admin.post(path, {REMOVE: {"tenant": "there"}})
    assert "access not found" in admin.fault("POST", path, 404, {REMOVE: {"tenant": "typo"}})


@pytest.mark.parametrize("project", ["secret", "broken"])
def test_who_cannot_be_asked_refuses_nobody(keystone, admin, project):
    assert admin.get(f"/os-quota-sets/{project}")["quota_set"]["id"] == project
    assert keystone.calls
    keystone.close()
    admin.get(f"/os-quota-sets/{project}")


@pytest.mark.parametrize("project", ["..", "a/b", "there?x=y"])
def test_no_name_leads_anywhere_else(keystone, admin, project):
    admin.post("/flavors/private/action", {ADD: {"tenant": project}}, 400)
    assert {call.path.count("/") for call in keystone.calls} <= {3}


def test_ones_own_project_is_known_by_the_token(keystone, member):
    member.get("/os-quota-sets/project1")
    assert keystone.calls == []


@pytest.mark.parametrize("strategy", ["noauth2", "embedded"])
def test_only_keystone_s_tokens_ask_keystone(cloud, keystone, admin, tmp_path, strategy):
    conf = nova_conf.load([], config_files=[str(tmp_path / "keystone.conf")], api__auth_strategy=strategy)
    cloud.services.projects = Projects(conf)
    admin.get("/os-quota-sets/typo")
    assert keystone.calls == []
