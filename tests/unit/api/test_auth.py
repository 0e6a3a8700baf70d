from __future__ import annotations

import pathlib

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.api import wsgi
from nova_lite.api.openstack import rules
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.policy import Policy
from tests.unit.api.conftest import ROUTES, Client, Make, Services, fault, module
from tests.unit.db.databases import make_tables


# noauth2 -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("token", "headers", "user", "project", "roles"), [
    ("joe:demo", {}, "joe", "demo", ["member", "reader"]),
    ("admin:demo", {}, "admin", "demo", ["admin", "manager", "member", "reader"]),
    ("joe", {}, "joe", "joe", ["member", "reader"]),
    (None, {"X_User_Id": "joe", "X_Project_Id": "demo"}, "joe", "demo", ["member", "reader"]),
    ("joe:demo", {"X_Roles": "reader"}, "joe", "demo", ["reader"]),
    ("admin:demo", {"X_Roles": "reader"}, "admin", "demo", ["reader"]),
    ("joe:demo", {"X_Roles": "manager, auditor"}, "joe", "demo", ["auditor", "manager", "member", "reader"]),
    ("joe:demo", {"X_Project_Id": "other", "X_Roles": ""}, "joe", "other", []),
])
def test_noauth2_believes_what_it_is_told(api: Client, token, headers, user, project, roles):
    answer = api("/v2.1/versions/x", token=token, **headers)
    assert answer.status_code == 404
    routes_answer = api("/v2.1/things/x", token=token, **headers)
    if not roles:
        assert fault(routes_answer, "forbidden", 403) == "Policy doesn't allow os_compute_api:servers:show to be performed."
        return
    assert routes_answer.json["user"] == user
    assert routes_answer.json["project"] == project
    assert routes_answer.json["roles"] == roles
    assert routes_answer.json["is_admin"] is ("admin" in roles)


def test_noauth2_refuses_nobody(api: Client):
    fault(api("/v2.1/things/x", token=None), "unauthorized", 401)


def test_service_roles_reach_the_context(api: Client):
    assert api("/v2.1/things/x", X_Service_Roles="service,other").json["service_roles"] == ["service", "other"]


@pytest.mark.parametrize("path", ["/", "/v2.1/", "/v2", "/healthcheck", "/anything"])
def test_discovery_needs_no_token(api: Client, path):
    assert api(path, token=None).status_code in (200, 300)


# embedded ----------------------------------------------------------------------------------------------------------
def test_embedded_identity(make: Make, tmp_path):
    identity = LocalIdentity(f"{tmp_path}/identity")
    passwords = identity.ensure({"admin": ("admin", ["admin", "member", "reader"])})
    api = make(api__auth_strategy="embedded", state_path=str(tmp_path))
    token, said = identity.authenticate("admin", passwords["admin"], None)
    answer = api("/v2.1/things/x", token=token, X_User_Id="somebody else", X_Service_Roles="service").json
    assert (answer["user"], answer["project"], answer["is_admin"]) == (said.user_id, said.project_id, True)
    assert answer["service_roles"] == []
    assert api("/v2.1/things/x", token="joe:demo").status_code == 401
    assert api("/v2.1/things/x", token=None, X_User_Id="joe").status_code == 401


def test_embedded_neighbours_are_there_only_with_embedded_identity(make: Make, tmp_path):
    LocalIdentity(f"{tmp_path}/identity").ensure({"admin": ("admin", ["admin"])})
    versions = make(api__auth_strategy="embedded", state_path=str(tmp_path))("/identity/v3", token=None)
    assert versions.json["version"]["status"] == "stable"
    assert "choices" in make()("/identity/v3", token=None).json


def test_nobody_makes_an_embedded_neighbour_read_a_large_body(make: Make, tmp_path):
    identity = LocalIdentity(f"{tmp_path}/identity")
    password = identity.ensure({"admin": ("admin", ["admin"])})["admin"]
    token, _ = identity.authenticate("admin", password, None)
    api = make(api__auth_strategy="embedded", state_path=str(tmp_path), database__connection=make_tables(f"sqlite:///{tmp_path}/db"))
    large = {"name": "x" * 120_000}
    for path in ("/identity/v3/auth/tokens", "/image/v2/images", "/network/v2.0/networks", "/volume/v3/p/volumes"):
        assert api(path, "POST", large, token=token).status_code == 413, path
        assert api(path, "POST", {}, token=token).status_code < 500, path
    made = api("/image/v2/images", "POST", {"name": "i", "disk_format": "raw", "container_format": "bare"}, token=token).json
    assert api(f"/image/v2/images/{made['id']}/file", "PUT", large, token=token).status_code == 204
    answer = api("/identity/v3", token=None)
    assert answer.headers["X-Openstack-Request-Id"].startswith("req-")


# keystone ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def keystone(tmp_path):
    """The application behind the real keystonemiddleware, which finds the tokens in its cache instead of asking Keystone."""
    file = tmp_path / "nova-lite.conf"
    file.write_text("[api]\nauth_strategy = keystone\n"
                    "[keystone_authtoken]\nauth_type = none\nendpoint = http://127.0.0.1:1\n"
                    "www_authenticate_uri = http://keystone/v3\nmemcache_security_strategy = None\n")
    conf = nova_conf.load([], config_files=[str(file)])
    return wsgi.loadapp(conf, "compute", Services(conf, Policy(conf, rules.installed())), [module("third_party", ROUTES)])  # type: ignore[arg-type]


def authtoken_of(urlmap):
    """The AuthProtocol inside the pipeline of /v2.1."""
    app = urlmap._below["/v2.1"]
    while type(app).__name__ != "AuthProtocol":
        app = app.app
    return app


def v3_token(**extra):
    return {"token": {"methods": ["password"], "issued_at": "2026-01-01T00:00:00.000000Z",
                      "expires_at": "2099-01-01T00:00:00.000000Z", "audit_ids": ["a"], "catalog": [],
                      "user": {"id": "u1", "name": "joe", "domain": {"id": "default", "name": "Default"}},
                      "project": {"id": "p1", "name": "demo", "domain": {"id": "default", "name": "Default"}},
                      "roles": [{"id": "r1", "name": "member"}, {"id": "r2", "name": "reader"}], **extra}}


def test_keystone_refuses_an_unknown_caller(keystone):
    response = Client(keystone)("/v2.1/things/x", token=None, X_User_Id="joe", X_Roles="admin")
    assert response.status_code == 401
    assert "Keystone uri" in response.headers["WWW-Authenticate"]
    assert "x-compute-request-id" in response.headers


def test_keystone_context(keystone):
    protocol = authtoken_of(keystone)
    tokens = {"mine": v3_token(), "svc": v3_token(roles=[{"id": "r3", "name": "service"}])}
    protocol.fetch_token = lambda token, **_: tokens[token]
    answer = Client(keystone)("/v2.1/p1/things/x", token="mine", X_Service_Token="svc", X_Roles="admin").json
    assert (answer["user"], answer["project"], answer["roles"]) == ("u1", "p1", ["member", "reader"])
    assert (answer["service_roles"], answer["is_admin"]) == (["service"], False)


# pipelines ---------------------------------------------------------------------------------------------------------
def test_filters_of_browsers_and_proxies_are_there_when_configured(tmp_path):
    file = tmp_path / "nova-lite.conf"
    file.write_text("[cors]\nallowed_origin = https://horizon.example.org\n[oslo_middleware]\n"
                    "enable_proxy_headers_parsing = true\n[api]\nauth_strategy = noauth2\n")
    conf = nova_conf.load([], config_files=[str(file)])
    api = Client(wsgi.loadapp(conf, "compute", Services(conf, Policy(conf, rules.installed())),  # type: ignore[arg-type]
                              [module("third_party", ROUTES)]))
    response = api("/v2.1/things/x", Origin="https://horizon.example.org", X_Forwarded_Proto="https", Host="public:443")
    assert response.headers["Access-Control-Allow-Origin"] == "https://horizon.example.org"
    assert response.json["self"] == "https://public/v2.1/things/x"


def test_proxy_headers_are_not_believed_by_default(api: Client):
    assert api("/v2.1/things/x", X_Forwarded_Proto="https").json["self"].startswith("http://")


def test_a_strategy_without_a_pipeline_is_one_clear_line(make: Make, tmp_path):
    text = pathlib.Path(wsgi.find_paste_config(nova_conf.load([], config_files=[]))).read_text()
    (tmp_path / "api-paste.ini").write_text(text.replace("noauth2 = cors", "other = cors"))
    with pytest.raises(exception.ConfigError, match="no pipeline for .*noauth2"):
        make(api__paste_config=str(tmp_path / "api-paste.ini"))


def test_importing_the_filters_does_not_import_keystonemiddleware():
    import subprocess
    import sys
    code = "import sys, nova_lite.api.wsgi, nova_lite.api.auth; print([m for m in sys.modules if 'keystonemiddleware' in m])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
