"""What a tenant reads of a failure: our own words, or the name of an error and the request. What the operator reads: all."""
from __future__ import annotations

import pytest
from oslo_messaging._drivers import common

from nova_lite import exception
from nova_lite.api.openstack import faults
from nova_lite.context import RequestContext
from nova_lite.db import actions
from nova_lite.embedded.api import wsgi
from nova_lite.objects import action as objects
from nova_lite.objects import states
from tests.unit.api.compute import conftest as api
from tests.unit.conductor.conftest import cloud, make_cloud  # noqa: F401

WORDS = "qemu-img: Could not open '/var/lib/nova_lite/instances/x/disk' on host7 by https://10.1.2.3:5000/v3"
FOREIGN = [OSError(28, WORDS), RuntimeError(WORDS), KeyError(WORDS), UnicodeDecodeError("ascii", WORDS.encode(), 0, 1, WORDS),
           exception.VirtDriverError(what=f"qemu-img convert {WORDS}", reason=WORDS), exception.NovaLiteError(WORDS),
           exception.ShareAccessFailed(share_id="s", address="10.1.2.3", reason=WORDS),
           exception.ServiceUnavailable(what="Cinder", reason=OSError(WORDS)),
           exception.BuildFailed(instance_id="i", reason=OSError(WORDS)),
           exception.GuestRemains(operation="create", host="host7", reason=exception.VirtDriverError(what=WORDS, reason=WORDS)),
           exception.VolumeStuck(volume_id="v", reason=OSError(WORDS), second=RuntimeError(WORDS)),
           exception.InstanceQuiesceFailed(reason=exception.VirtDriverError(what="libvirt", reason=WORDS)),
           exception.DriverRefusal(what="Leaving the old host", reason=OSError(WORDS)),
           exception.HostDown(host="host7", operation="stop")]


def leaks(text: str) -> list[str]:
    """What of it no tenant may read."""
    return [word for word in ("/var/lib", "qemu-img", "host7", "10.1.2.3", "https:") if word in text]


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
def test_an_error_tells_the_operator_all_and_the_user_our_own_words(error):
    assert not leaks(exception.public_of(error)), exception.public_of(error)
    assert leaks(exception.words_of(error))


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
def test_an_error_that_comes_from_another_service_tells_the_same(error):
    if not isinstance(error, exception.NovaLiteError):
        pytest.skip("these stay remote errors")
    sent = common.serialize_remote_exception((type(error), error, None))
    came = common.deserialize_remote_exception(sent, exception.MODULES)
    assert came.public == error.public
    assert came.message == error.message or error.message in str(came)


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
def test_an_answer_of_the_apis_tells_the_user_our_own_words(error, caplog):
    [body] = faults.FaultWrapper(_raises(error))({"wsgi.input": None}, lambda status, headers: None)
    assert not leaks(body.decode())
    assert leaks(caplog.text)
    assert not leaks(wsgi.Application(None, [wsgi.Route("GET", "/x", _raises(error), public=True)])(
        {"REQUEST_METHOD": "GET", "PATH_INFO": "/x", "SERVER_NAME": "x", "SERVER_PORT": "1", "wsgi.url_scheme": "http",
         "wsgi.input": None}, lambda status, headers: None)[0].decode())


def _raises(error):
    def handler(*_args):
        raise error
    return handler


def test_an_unexpected_error_is_named_with_its_request():
    context = RequestContext(user_id="u", project_id="p")
    assert exception.public_of(OSError(WORDS)) == f"OSError ({context.request_id})"


def test_what_helps_a_user_is_still_said():
    for error, words in (
            (exception.NoValidHost(reason="RamFilter left 0 of 3 hosts"), "No valid host was found. RamFilter left 0"),
            (exception.ImageUnacceptable(image_id="x", reason="a backing file"), "Image x is unacceptable: a backing"),
            (exception.DriverRefusal(what="Detaching volume v", reason="the guest is paused"), "the guest is paused"),
            (exception.BuildAborted(instance_id="i", reason=exception.ImageNotFound(image_id="x")), "x could not be found"),
            (exception.BuildFailed(instance_id="i", reason=OSError("x")), "Build of instance i failed: OSError"),
            (exception.ServiceUnavailable(what="Cinder", reason="no answer within 2 s"), "Cinder is unavailable: no answer")):
        assert words in exception.public_of(error)


@pytest.mark.parametrize("error", FOREIGN[:6], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("verb", "method"), [("stop", "power_off"), ("pause", "pause"), ("reboot", "reboot"),
                                              ("delete", "destroy"), ("suspend", "suspend")])
def test_the_fault_of_a_server(cloud, monkeypatch, verb, method, error):  # noqa: F811
    server = cloud.active()
    monkeypatch.setattr(cloud.hosts[cloud.get(server).host].host.driver, method, _raises_anything(error))
    action_id = cloud.operate(server, verb)
    cloud.wait_action(action_id, objects.ERROR)
    fault = cloud.get(server).fault
    assert not leaks(fault["message"])
    assert type(error).__name__ in fault["message"]
    with cloud.db.read() as conn:
        assert any(leaks(event["traceback"] or "") and leaks(event["details"] or "")
                   for event in actions.events_of(conn, action_id))


def _raises_anything(error):
    def method(*_args, **_kwargs):
        raise error
    return method


@pytest.mark.parametrize("error", FOREIGN[:6], ids=lambda error: type(error).__name__)
def test_the_fault_of_a_build(cloud, monkeypatch, error):  # noqa: F811
    for manager in cloud.hosts.values():
        monkeypatch.setattr(manager.host.driver, "spawn", _raises_anything(error))
    [server] = cloud.build()
    fault = cloud.wait(server, states.ERROR).fault
    assert not leaks(fault["message"])
    assert leaks(fault["details"])
    with cloud.db.read() as connection:
        assert [action.message for action in actions.list_for_instance(connection, server)] == [fault["message"]]
    assert "h1" not in fault["message"]


@pytest.fixture
def options():
    return {}


@pytest.fixture
def servers_of(tmp_path, options):
    yield from api.cloud.__wrapped__(type("R", (), {"param": "sqlite"}), tmp_path, options)


def test_details_are_for_admins(servers_of):
    server = servers_of.add_server(vm_state="error", fault={
        "code": 500, "message": "OSError (req-1)", "details": WORDS, "created": "2026-01-01T00:00:00Z"})
    action = servers_of.db.write(actions.record, RequestContext(user_id="fake", project_id="project1"), "stop", server, "Error")
    servers_of.db.write(lambda c: actions.add_events(c, [(action, {
        **actions.event("compute_stop_instance", "host7", api.units.utcnow(), error=WORDS), "traceback": WORDS})]))
    for version in ("2.1", "2.51", "2.62", "2.84", "2.96"):
        member, admin = servers_of.client(version=version), servers_of.client("admin", "project1", ("admin",), version)
        assert not leaks(member.call("GET", f"/servers/{server}").text)
        assert not leaks(member.call("GET", "/servers/detail").text)
        assert leaks(str(admin.get(f"/servers/{server}")["server"]["fault"]))
        [shown] = member.get(f"/servers/{server}/os-instance-actions")["instanceActions"]
        path = f"/servers/{server}/os-instance-actions/{shown['request_id']}"
        assert not leaks(member.call("GET", path).text)
        assert leaks(str(admin.get(path)))
