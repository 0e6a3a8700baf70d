"""Consoles as a compute host offers them, and what the conductor says of their tokens."""
import pytest

from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.db import console_auth_tokens
from nova_lite.objects.console import ConsoleAuthToken
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.conductor import ConductorAPI
from tests.unit.conductor.conftest import cloud, make_cloud  # noqa: F401

EVERYTHING = {"spice__enabled": True, "serial_console__enabled": True}


def open_console(cloud, server, protocol, console_type):  # noqa: F811
    return ComputeAPI(cloud.transport).get_console(admin_context(), cloud.get(server).host, server, protocol, console_type)


def test_consoles_of_the_fake_driver(make_cloud):  # noqa: F811
    cloud = make_cloud("h1", **EVERYTHING)  # noqa: F811
    server = cloud.active()
    found = {kind: open_console(cloud, server, protocol, kind) for protocol, kind in (
        ("vnc", "novnc"), ("spice", "spice-html5"), ("spice", "spice-direct"), ("serial", "serial"))}
    assert {kind: answer["host"] for kind, answer in found.items()} == {
        "novnc": "fakevncconsole.com", "spice-html5": "fakespiceconsole.com", "spice-direct": "fakespiceconsole.com",
        "serial": "fakerdpconsole.com"}
    assert {kind: answer["base_url"] for kind, answer in found.items()} == {
        "novnc": "http://127.0.0.1:6080/vnc_lite.html", "spice-html5": "http://127.0.0.1:6082/spice_auto.html",
        "spice-direct": "http://127.0.0.1:13002/nova", "serial": "ws://127.0.0.1:6083/"}
    assert (found["spice-direct"]["port"], found["spice-direct"]["tls_port"]) == (6969, 6970)


@pytest.mark.parametrize(("protocol", "kind", "error"), [
    ("vnc", "xvpvnc", exception.ConsoleTypeInvalid), ("vnc", "serial", exception.ConsoleTypeInvalid),
    ("spice", "spice-html5", exception.ConsoleTypeUnavailable), ("serial", "serial", exception.ConsoleTypeUnavailable),
    ("mks", "webmks", exception.ConsoleTypeUnavailable), ("rdp", "rdp-html5", exception.ConsoleTypeUnavailable)])
def test_what_is_not_to_be_had(cloud, protocol, kind, error):  # noqa: F811
    with pytest.raises(error) as caught:
        open_console(cloud, cloud.active(), protocol, kind)
    assert caught.value.code == 400


def test_a_console_is_where_its_token_says(cloud):  # noqa: F811
    rpc, server = ComputeAPI(cloud.transport), cloud.active()
    host = cloud.get(server).host
    assert rpc.validate_console(admin_context(), host, server, "novnc", 6969)
    assert not rpc.validate_console(admin_context(), host, server, "novnc", 5900)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: not cloud.guests(host))
    assert not rpc.validate_console(admin_context(), host, server, "novnc", 6969)


def test_tokens_end_when_the_guest_stops(cloud):  # noqa: F811
    conductor, server = ConductorAPI(cloud.transport), cloud.active()
    token = ConsoleAuthToken(server, cloud.get(server).host, "novnc", "fakevncconsole.com", 6969)
    cloud.db.write(console_auth_tokens.create, "digest", token, 600)

    def known():
        return conductor.get_console_auth_token(admin_context(), "digest")
    assert ConsoleAuthToken.from_primitive(known()) == token
    for verb, ends_in in (("pause", "paused"), ("unpause", "active"), ("reboot", "active")):
        cloud.operate(server, verb)
        cloud.wait(server, ends_in)
        assert known() is not None, verb
    cloud.operate(server, "stop")
    cloud.wait(server, "stopped")
    assert known() is None
