"""Consoles by the API: URLs, tokens, and who may look one up. The answers of hosts are in tests/unit/compute."""
import datetime
import logging
import re
from urllib.parse import parse_qs, urlparse

import oslo_messaging
import pytest
import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.api.openstack import request_log
from nova_lite.db import console_auth_tokens, models
from nova_lite.objects import console as objects
from nova_lite.objects.console import Console
from tests.unit.api.compute.conftest import assert_like_sample
from tests.unit.api.compute.server_support import Servers

UNKNOWN = "11111111-2222-3333-4444-555555555555"
NOVNC = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
TOKEN = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@pytest.fixture
def host(cloud, monkeypatch):
    """What the host answers: set ``host["answer"]``, see ``host["asked"]``."""
    state = {"asked": [], "answer": {**Console("192.0.2.9", 5900, internal_access_path="FAKE").to_primitive(),
                                     "base_url": "http://example.com:6080/vnc_auto.html"}}

    def answer(_context, name, uuid, protocol, console_type):
        state["asked"].append((name, uuid, protocol, console_type))
        if isinstance(state["answer"], Exception):
            raise state["answer"]
        return dict(state["answer"])
    monkeypatch.setattr(cloud.services.compute.compute_rpc, "get_console", answer)
    return state


def path(server):
    return f"/servers/{server}/remote-consoles"


def token_of(url):
    return parse_qs(urlparse(parse_qs(urlparse(url).query)["path"][0]).query)["token"][0]


def test_a_url_with_a_token(servers, member, host):
    server = servers.active(member)
    member.at("2.5").post(path(server), NOVNC, 404)
    made = member.at("2.6").post(path(server), NOVNC)
    assert_like_sample(made, "os-remote-consoles/create-vnc-console-resp", "2.6")
    url = made["remote_console"]["url"]
    assert url.startswith("http://example.com:6080/vnc_auto.html?path=%3Ftoken%3D")
    assert TOKEN.fullmatch(token_of(url))
    assert host["asked"] == [("host1", server, "vnc", "novnc")]
    host["answer"]["base_url"] = "ws://127.0.0.1:6083/"
    serial = {"remote_console": {"protocol": "serial", "type": "serial"}}
    made = member.at("2.6").post(path(server), serial)["remote_console"]
    assert (made["protocol"], made["type"]) == ("serial", "serial")
    assert re.fullmatch(rf"ws://127.0.0.1:6083/\?token={TOKEN.pattern}", made["url"])


@pytest.mark.parametrize(("protocol", "kind", "first"), [("vnc", "xvpvnc", "2.6"), ("rdp", "rdp-html5", "2.6"),
                                                         ("mks", "webmks", "2.8"), ("spice", "spice-direct", "2.99")])
def test_types_by_version(servers, member, host, protocol, kind, first):
    server = servers.active(member)
    body = {"remote_console": {"protocol": protocol, "type": kind}}
    before = f"2.{int(first.partition('.')[2]) - 1}"
    if first != "2.6":
        member.at(before).post(path(server), body, 400)
    assert host["asked"] == []
    member.at(first).post(path(server), body)
    assert host["asked"] == [("host1", server, protocol, kind)]


@pytest.mark.parametrize("body", [{}, {"remote_console": {}}, {"remote_console": {"protocol": "vnc"}},
                                  {"remote_console": {"protocol": "vnc", "type": "other"}},
                                  {"remote_console": {"protocol": "x", "type": "novnc"}},
                                  {"remote_console": {"protocol": "vnc", "type": "novnc", "more": 1}}])
def test_bodies_that_are_refused(servers, member, body):
    member.at("2.6").post(path(servers.active(member)), body, 400)


@pytest.mark.parametrize(("action", "kind", "protocol", "sample"), [
    ("os-getVNCConsole", "novnc", "vnc", "vnc"), ("os-getSPICEConsole", "spice-html5", "spice", "spice"),
    ("os-getSerialConsole", "serial", "serial", "serial"), ("os-getVNCConsole", "xvpvnc", "vnc", "vnc")])
def test_the_old_actions_end_with_2_5(servers, member, host, action, kind, protocol, sample):
    server = servers.active(member)
    body = {action: {"type": kind}}
    made = member.at("2.5").post(f"/servers/{server}/action", body)
    assert_like_sample(made, f"os-remote-consoles/get-{sample}-console-post-resp", "2.1")
    assert made["console"]["type"] == kind
    assert host["asked"] == [("host1", server, protocol, kind)]
    member.at("2.6").post(f"/servers/{server}/action", body, 404)
    member.at("2.5").post(f"/servers/{server}/action", {action: {"type": "other"}}, 400)
    member.at("2.5").post(f"/servers/{server}/action", {action: {}}, 400)


def test_rdp_is_always_refused(servers, member):
    server = servers.active(member)
    assert "rdp-html5" in member.fault("POST", f"/servers/{server}/action", 400, {"os-getRDPConsole": {"type": "rdp-html5"}})


def test_no_console(servers, cloud, member, host):
    server = servers.active(member)
    member = member.at("2.96")
    member.post(path(UNKNOWN), NOVNC, 404)
    cloud.client(project="other", version="2.96").post(path(server), NOVNC, 404)
    cloud.client(roles=("reader",), version="2.96").post(path(server), NOVNC, 403)
    assert "not ready" in member.fault("POST", path(servers.create(member)), 409, NOVNC)
    for error, status in ((exception.ConsoleTypeUnavailable(console_type="novnc"), 400),
                          (exception.ConsoleTypeInvalid(console_type="novnc"), 400),
                          (exception.InstanceNotReady(instance_id=server), 409),
                          (exception.NotImplementedByDriver(what="consoles"), 501),
                          (oslo_messaging.MessagingTimeout("no reply"), 503)):
        host["answer"] = error
        member.post(path(server), NOVNC, status)
    with cloud.db.read() as connection:
        assert connection.execute(sa.select(models.console_auth_tokens)).all() == []


def test_what_a_token_stands_for(servers, cloud, member, admin, host):
    server = servers.active(member)
    token = token_of(member.at("2.6").post(path(server), NOVNC)["remote_console"]["url"])
    shown = admin.at("2.31").get(f"/os-console-auth-tokens/{token}")
    assert_like_sample(shown, "os-console-auth-tokens/get-console-connect-info-get-resp", "2.31")
    assert shown["console"] == {"instance_uuid": server, "host": "192.0.2.9", "port": 5900, "internal_access_path": "FAKE"}
    assert admin.at("2.99").get(f"/os-console-auth-tokens/{token}") == shown
    admin.at("2.98").get(f"/os-console-auth-tokens/{token}?x=1")
    admin.at("2.99").get(f"/os-console-auth-tokens/{token}?x=1", 400)
    admin.at("2.30").get(f"/os-console-auth-tokens/{token}", 400)
    member.at("2.31").get(f"/os-console-auth-tokens/{token}", 403)
    assert "Token not found" in admin.at("2.31").fault("GET", f"/os-console-auth-tokens/{UNKNOWN}", 404)
    with cloud.db.read() as connection:
        assert token not in str(connection.execute(sa.select(models.console_auth_tokens)).all())


def test_the_port_for_tls_is_that_of_a_spice_direct_console(servers, member, admin, host):
    host["answer"] |= {"base_url": "http://example.com/spice", "tls_port": 5901}
    url = member.at("2.99").post(path(servers.active(member)), {"remote_console": {
        "protocol": "spice", "type": "spice-direct"}})["remote_console"]["url"]
    token = TOKEN.search(url).group()
    assert "tls_port" not in admin.at("2.98").get(f"/os-console-auth-tokens/{token}")["console"]
    shown = admin.at("2.99").get(f"/os-console-auth-tokens/{token}")
    assert_like_sample(shown, "os-console-auth-tokens/get-console-connect-info-get-resp", "2.99")
    assert shown["console"]["tls_port"] == 5901


def test_a_token_ends(servers, cloud, member, admin, host):
    """With its time, its server, and the host on which the server was."""
    admin = admin.at("2.31")

    def make(server):
        return f"/os-console-auth-tokens/{token_of(member.at('2.6').post(path(server), NOVNC)['remote_console']['url'])}"
    moved, gone, old = (servers.active(member) for _ in range(3))
    urls = {server: make(server) for server in (moved, gone, old)}
    for url in urls.values():
        admin.get(url)
    servers.set(moved, host="host2")
    cloud.delete_server(gone)
    past = units.utcnow() - datetime.timedelta(seconds=1)
    table = models.console_auth_tokens
    cloud.db.write(lambda c: c.execute(sa.update(table).where(table.c.instance_uuid == old).values(expires_at=past)))
    for url in urls.values():
        admin.get(url, 404)
    assert cloud.db.write(console_auth_tokens.purge) == 1


def test_digests_are_no_tokens(servers, member, admin, host):
    token = token_of(member.at("2.6").post(path(servers.active(member)), NOVNC)["remote_console"]["url"])
    admin.at("2.31").get(f"/os-console-auth-tokens/{objects.digest(token)}", 404)


def test_tokens_are_not_logged(caplog):
    def app(_environ, start_response):
        start_response("200 OK", [])
        return []
    with caplog.at_level(logging.INFO):
        request_log.RequestLog(app)({"REQUEST_METHOD": "GET", "PATH_INFO": f"/v2.1/os-console-auth-tokens/{UNKNOWN}"},
                                    lambda *_: None)
    assert "os-console-auth-tokens/***" in caplog.text
    assert UNKNOWN not in caplog.text
