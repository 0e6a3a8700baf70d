"""The client of the neighbours, against a small Keystone and a neighbour on real ports."""
import socket
import subprocess
import sys
import threading
import time

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.identity import breaker, keystone
from tests.support.fake_openstack import PROJECT, Answer, FakeOpenStack, write_conf

USER = RequestContext(auth_token="user-token", project_id="p1", user_id="u1", overwrite=False,
                      global_request_id="req-6e9f7a52-0000-0000-0000-000000000001")
SERVICE = admin_context()


@pytest.fixture
def cloud():
    fake = FakeOpenStack("network", lambda call: Answer(200, {"ok": True}), versions={"v2.0": "/v2.0/", "v3.0": "/v3/"})
    yield fake
    fake.close()


@pytest.fixture
def make(cloud, tmp_path):
    def client(**options):
        conf = nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud, **{"timeout": 1, **options})])
        return keystone.Client(conf, "network", "Neutron", 2)
    return client


@pytest.fixture
def client(make):
    return make()


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Nobody waits longer in these tests than a user would."""
    monkeypatch.setattr(keystone, "UNHURRIED", 1)


def _fails(match, call, *args, **kwargs):
    began = time.monotonic()
    with pytest.raises(exception.ServiceUnavailable, match=match) as caught:
        call(*args, **kwargs)
    assert caught.value.code == 503
    return time.monotonic() - began


# who asks ----------------------------------------------------------------------------------------------------------
def test_a_user_is_known_by_both_tokens(client, cloud):
    assert client.call(USER, "GET", "/ports/{project}", params={"a": "b"}).json() == {"ok": True}
    call = cloud.calls[-1]
    assert call.path == "/v2.0/ports/p1?a=b"
    assert (call.headers["X-Auth-Token"], call.headers["X-Service-Token"]) == ("user-token", "service-1")
    assert call.headers["X-OpenStack-Request-ID"] == USER.global_request_id


def test_the_service_user_is_known_by_its_own(client, cloud):
    client.call(SERVICE, "GET", "/ports/{project}")
    client.call(USER, "GET", "/ports", as_service=True)
    for call in cloud.calls:
        assert call.headers["X-Auth-Token"] == "service-1"
        assert call.headers["X-Service-Token"] == "service-1"      # Cinder lets services alone delete attachments in use
    assert cloud.calls[0].path == f"/v2.0/ports/{PROJECT}"
    assert cloud.issued == 1


def test_the_request_id_of_a_request_without_a_global_one(client, cloud):
    context = RequestContext(overwrite=False)
    client.call(context, "GET", "/ports")
    assert cloud.calls[-1].headers["X-OpenStack-Request-ID"] == context.request_id


def test_a_revoked_service_token_is_renewed_once(client, cloud):
    client.call(USER, "GET", "/ports")
    cloud.handler = lambda call: Answer(401 if "service-1" in str(call.headers) else 200, {})
    client.call(USER, "POST", "/ports", json={"x": 1})      # what was refused was not done: a POST too is sent again
    assert cloud.calls[-1].headers["X-Service-Token"] == "service-2"
    client.call(SERVICE, "GET", "/ports")
    assert cloud.calls[-1].headers["X-Auth-Token"] == "service-2"
    assert cloud.issued == 2


def test_a_users_token_that_ran_out_is_the_users_matter(client, cloud):
    cloud.handler = lambda call: Answer(401, {"error": {"message": "expired"}})
    with pytest.raises(exception.Unauthorized, match="Neutron does not take the token"):
        client.call(USER, "GET", "/ports")
    assert len(cloud.calls) == 2


def test_a_service_user_that_is_refused_is_the_operators_matter(client, cloud):
    cloud.handler = lambda call: Answer(401, {"error": {"message": "no role"}})
    _fails("Neutron is unavailable: it refuses the service user: no role", client.call, SERVICE, "GET", "/ports")


def test_without_credentials_the_option_is_named():
    client = keystone.Client(nova_lite.conf.load([], config_files=[]), "network", "Neutron", 2)
    with pytest.raises(exception.ConfigError, match=r"\[service_user\] has no credentials"):
        client.call(SERVICE, "GET", "/ports")


# where -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("version", "root"), [(2, "/v2.0"), (3, "/v3")])
def test_an_unversioned_endpoint_is_asked_for_its_versions(cloud, tmp_path, version, root):
    conf = nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud)])
    client = keystone.Client(conf, "network", "Neutron", version)
    for _ in range(3):
        client.call(SERVICE, "GET", "/ports")
    assert [c.path for c in cloud.calls] == [f"{root}/ports"] * 3


@pytest.mark.parametrize("path", ["/networking/v2.0", "/networking/v2.0/", f"/networking/v2.0/{PROJECT}"])
def test_a_versioned_endpoint_is_taken_as_it_is(cloud, tmp_path, path):
    cloud.versions, cloud.endpoint_path = None, path
    conf = nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud)])
    keystone.Client(conf, "network", "Neutron", 2).call(SERVICE, "GET", "/ports")
    assert cloud.calls[-1].path == "/networking/v2.0/ports"


def test_a_catalog_without_the_service(cloud, tmp_path):
    conf = nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud)])
    client = keystone.Client(conf, "volumev3", "Cinder", 3)
    _fails("Cinder is unavailable: the catalog has no volumev3 service", client.call, SERVICE, "GET", "/volumes")


def test_a_service_without_the_version(cloud, tmp_path):
    conf = nova_lite.conf.load([], config_files=[write_conf(tmp_path / "conf", cloud)])
    client = keystone.Client(conf, "network", "Neutron", 7)
    _fails("Neutron is unavailable: .* has no version 7 of its API", client.call, SERVICE, "GET", "/ports")


# answers -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("body", "reason", "kind"), [
    ({"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['port'].", "detail": ""}},
     "Quota exceeded for resources: ['port'].", "OverQuota"),
    ({"overLimit": {"code": 413, "message": "VolumeLimitExceeded"}}, "VolumeLimitExceeded", "overLimit"),
    ({"message": "Image is in use", "code": "409 Conflict", "title": "Conflict"}, "Image is in use", ""),
    ({"error": {"code": 404, "title": "Not Found", "message": "no"}}, "no", "error"),
    (b"<html><title>No</title><body>not <b>here</b></body></html>", "No not here", ""),
    (b"", "Conflict", ""), ({}, "", ""), ({"NeutronError": "plain"}, "plain", "NeutronError"), ([1], "[1]", "")])
def test_a_refusal_in_the_neighbours_own_words(client, cloud, body, reason, kind):
    cloud.handler = lambda call: Answer(409, body)
    with pytest.raises(keystone.NeighbourError) as caught:
        client.call(SERVICE, "POST", "/ports", json={})
    assert (caught.value.status, caught.value.reason, caught.value.kind) == (409, reason, kind)
    assert str(caught.value) == f"Neutron answered 409: {reason}"
    assert len(cloud.calls) == 1


def test_an_error_of_the_neighbour(client, cloud):
    cloud.handler = lambda call: Answer(500, {"message": "boom"})
    _fails("^Neutron is unavailable: it answered 500: boom$", client.call, SERVICE, "GET", "/ports")
    assert len(cloud.calls) == 1
    cloud.handler = lambda call: Answer(200, {})
    client.call(SERVICE, "GET", "/ports")        # it is there: nobody has to wait


@pytest.mark.parametrize(("method", "tries"), [("GET", 3), ("PUT", 3), ("DELETE", 3), ("POST", 1)])
def test_a_busy_neighbour_is_asked_again_where_twice_is_as_good_as_once(client, cloud, method, tries):
    cloud.handler = lambda call: Answer(503, {"message": "busy"})
    assert _fails("it answered 503: busy", client.call, SERVICE, method, "/ports") < 3
    assert len(cloud.calls) == tries


@pytest.mark.parametrize(("method", "tries"), [("GET", 3), ("POST", 1)])
def test_a_connection_that_breaks(client, cloud, method, tries):
    client.call(SERVICE, "GET", "/ports")
    cloud.calls.clear()
    cloud.handler = lambda call: Answer(drop=True)
    _fails("Neutron is unavailable: the connection broke before it answered", client.call, SERVICE, method, "/ports")
    assert len(cloud.calls) == tries
    cloud.handler = lambda call: Answer(200, {})
    client.call(SERVICE, method, "/ports")


def test_a_stream_is_never_sent_twice(client, cloud):
    client.call(SERVICE, "GET", "/ports")
    cloud.calls.clear()
    cloud.handler = lambda call: Answer(503, {})
    _fails("it answered 503", client.call, SERVICE, "PUT", "/file", data=iter([b"abc", b"def"]))
    assert [c.body for c in cloud.calls] == [b"abcdef"]


# a neighbour that is not there -------------------------------------------------------------------------------------
def test_a_short_absence_is_not_noticed(client, cloud):
    client.call(SERVICE, "POST", "/ports", json={})
    cloud.stop()
    back = threading.Timer(0.4, cloud.restart)
    back.start()
    client.call(SERVICE, "POST", "/ports", json={})     # nothing was sent at first, so that even a POST may be tried again
    back.join()
    assert len(cloud.calls) == 2


def test_a_neighbour_that_is_down_is_left_alone_for_a_while(client, cloud, monkeypatch):
    monkeypatch.setattr(breaker, "PAUSE", 0.5)
    client.call(SERVICE, "GET", "/ports")
    cloud.stop()
    refused = "^Neutron is unavailable: it cannot be reached: connection refused$"
    assert 0.5 < _fails(refused, client.call, SERVICE, "GET", "/ports") < 2
    assert _fails("connection refused", client.call, USER, "GET", "/ports") < 0.1
    cloud.restart()
    assert _fails("connection refused", client.call, SERVICE, "GET", "/ports") < 0.1
    time.sleep(0.6)
    client.call(SERVICE, "GET", "/ports")
    client.call(SERVICE, "GET", "/ports")


def test_one_call_finds_out_for_all_whether_it_is_back(client, cloud, monkeypatch):
    monkeypatch.setattr(breaker, "PAUSE", 0.2)
    client.call(SERVICE, "GET", "/ports")
    cloud.calls.clear()
    cloud.handler = lambda call: Answer(200, {}, hang=30)
    _fails("no answer within 1 s", client.call, SERVICE, "GET", "/ports")
    time.sleep(0.3)
    waits = _together(8, lambda: _fails("no answer within 1 s", client.call, SERVICE, "GET", "/ports"))
    assert max(waits) < 2       # those who waited for the one that asked wait no longer than it did
    assert len(cloud.calls) == 2


def test_who_comes_while_one_finds_out_waits_for_what_it_finds(client, cloud, monkeypatch):
    monkeypatch.setattr(breaker, "PAUSE", 0.2)
    client.call(SERVICE, "GET", "/ports")
    cloud.stop()
    _fails("connection refused", client.call, SERVICE, "GET", "/ports")
    cloud.restart()
    cloud.handler = lambda call: Answer(200, {}, hang=0.3)
    time.sleep(0.3)
    answers = _together(4, lambda: client.call(SERVICE, "GET", "/ports").status_code)
    assert answers == [200] * 4


def _together(count, function):
    done = []
    threads = [threading.Thread(target=lambda: done.append(function())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == count
    return done


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_neighbour_that_hangs_costs_one_timeout(client, cloud, method):
    client.call(SERVICE, "GET", "/ports")
    cloud.calls.clear()
    cloud.handler = lambda call: Answer(200, {}, hang=30)
    assert 0.9 < _fails("^Neutron is unavailable: no answer within 1 s$", client.call, SERVICE, method, "/ports") < 2
    assert len(cloud.calls) == 1


def test_a_neighbour_that_hangs_never_holds_all_threads(client, cloud, monkeypatch):
    monkeypatch.setitem(keystone.USER_WAIT, False, 0.2)
    client.call(SERVICE, "GET", "/ports")
    cloud.calls.clear()
    cloud.handler = lambda call: Answer(200, {}, hang=30)
    waits = _together(20, lambda: _fails("Neutron is unavailable", client.call, USER, "GET", "/ports"))
    assert len(cloud.calls) == breaker.AT_ONCE == 10
    assert sum(w < 0.8 for w in waits) == 10


def test_where_no_user_waits_a_neighbour_may_take_its_time(make, cloud, monkeypatch):
    monkeypatch.setattr(keystone, "UNHURRIED", 3)
    client = make()
    cloud.handler = lambda call: Answer(200, {}, hang=1.5)
    client.call(SERVICE, "GET", "/ports")
    _fails("no answer within 1 s", client.call, USER, "GET", "/ports")


def test_a_neighbour_that_answers_others_is_slow_not_down(client, cloud):
    """One call that takes too long must not bring down those beside it."""
    client.call(SERVICE, "GET", "/ports")
    cloud.handler = lambda call: Answer(200, {}, hang=30 if "slow" in call.path else 0)
    slow = threading.Thread(target=lambda: _fails("no answer within 1 s", client.call, SERVICE, "GET", "/slow"))
    slow.start()
    ends = time.monotonic() + 1.5
    while time.monotonic() < ends:
        client.call(SERVICE, "GET", "/ports")
        time.sleep(0.05)
    slow.join()


def test_a_crowd_of_hosts_waits_its_turn_and_no_longer(client, cloud):
    client.call(SERVICE, "GET", "/ports")
    cloud.calls.clear()
    cloud.handler = lambda call: Answer(200, {}, hang=0.2)
    assert _together(25, lambda: client.call(SERVICE, "GET", "/ports").status_code) == [200] * 25
    cloud.calls.clear()
    cloud.handler = lambda call: Answer(200, {}, hang=30)
    waits = _together(25, lambda: _fails("Neutron is unavailable: no answer within 1 s", client.call, SERVICE, "GET", "/ports"))
    assert max(waits) < 25      # nobody waits until the end
    assert len(cloud.calls) == 10       # those who wait in the queue learn what the first have found


def test_a_neighbour_that_hangs_at_the_first_question(make, cloud):
    versions, cloud.versions = cloud.versions, None
    cloud.handler = lambda call: Answer(200, {}, hang=30)
    client = make()
    hangs = "^Neutron is unavailable: no answer within 1 s$"
    assert max(_together(5, lambda: _fails(hangs, client.call, SERVICE, "GET", "/ports"))) < 2.5
    cloud.versions = versions


# a Keystone that is not there --------------------------------------------------------------------------------------
def test_keystone_that_hangs_is_named_and_costs_one_timeout(client, cloud):
    cloud.keystone_handler = lambda call: Answer(200, {}, hang=30)
    waits = _together(5, lambda: _fails("^Keystone is unavailable: no answer within 1 s$", client.call, USER, "GET", "/ports"))
    assert max(waits) < 2.5


def test_keystone_that_is_down_is_named(client, cloud):
    address = cloud.keystone.server_address
    cloud.keystone.end()
    with socket.socket() as nobody_listens:     # and no other test gets the port
        nobody_listens.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        nobody_listens.bind(address)
        _fails("^Keystone is unavailable: it cannot be reached: connection refused$", client.call, SERVICE, "GET", "/ports")
    assert cloud.calls == []
    cloud.keystone = cloud.server       # for close()


def test_keystone_that_refuses_the_service_user(client, cloud):
    cloud.refusal = Answer(401, {"error": {"code": 401, "message": "The request you have made requires authentication."}})
    _fails("Keystone is unavailable: no token for the service user: .*requires authentication", client.call, USER, "GET", "/p")


def test_keystone_that_fails_while_our_token_is_good_is_not_missed(client, cloud):
    client.call(SERVICE, "GET", "/ports")
    cloud.keystone_handler = lambda call: Answer(500, {})
    client.call(SERVICE, "GET", "/ports")
    client.call(USER, "GET", "/ports")


# green threads -----------------------------------------------------------------------------------------------------
GREEN = """
from nova_lite.runtime import concurrency
concurrency.setup()
import sys, time, threading
import nova_lite.conf
from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.identity import keystone
client = keystone.Client(nova_lite.conf.load([], config_files=[sys.argv[1]]), "network", "Neutron", 2)
client.call(admin_context(), "GET", "/ports")
print("ready", flush=True)
sys.stdin.readline()
ended = []
def ask():
    try:
        client.call(admin_context(), "GET", "/ports")
    except exception.ServiceUnavailable as error:
        ended.append(str(error))
threads = [threading.Thread(target=ask) for _ in range(50)]
turns = 0
for thread in threads:
    thread.start()
while len(ended) < 50:
    time.sleep(0.01)
    turns += 1
print(len(ended), turns, set(ended))
"""


@pytest.mark.parametrize("mode", ["eventlet", "threading"])
def test_a_process_goes_on_while_a_neighbour_hangs(cloud, tmp_path, mode):
    conf = write_conf(tmp_path / "conf", cloud, timeout=1)
    child = subprocess.Popen([sys.executable, "-c", GREEN, conf], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={"NOVA_LITE_CONCURRENCY": mode, "PATH": "/usr/bin:/bin"})
    assert child.stdout.readline() == "ready\n"
    cloud.handler = lambda call: Answer(200, {}, hang=30)
    out, _ = child.communicate("go\n", timeout=120)
    count, turns, _ = out.split(maxsplit=2)
    assert count == "50"
    assert "Neutron is unavailable: no answer within 2 s" in out
    assert int(turns) > 25      # one for each call, if each held up all threads while it waits


def test_one_who_finds_nothing_out_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(breaker, "PAUSE", 0.05)
    one = breaker.Breaker("Neutron", 120)
    one.failed(exception.ServiceUnavailable(what="Neutron", reason="it cannot be reached"), time.monotonic())
    time.sleep(0.1)
    with pytest.raises(ValueError, match="discovery"), one.place(1):
        raise ValueError("discovery")
    with one.place(10):         # it would be refused when the 10 s are over
        pass
