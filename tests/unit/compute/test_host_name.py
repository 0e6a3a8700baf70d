"""A host that has got another name is not started: the servers of its guests would be another host's."""
import json

import pytest

from nova_lite import exception
from nova_lite.objects import states


def _guests(cloud, name, *uuids):
    with open(f"{cloud.conf.fake.state_file}.{name}", "w") as file:
        json.dump({uuid: {"power_state": states.RUNNING, "name": "n"} for uuid in uuids}, file)


@pytest.fixture
def lasting(make_cloud, tmp_path):
    """A cloud of one host whose guests outlive its daemon."""
    return make_cloud("h1", fake__state_file=str(tmp_path / "guests"))


def test_a_host_with_guests_does_not_start_under_another_name(lasting):
    server = lasting.active()
    lasting.end_host("h1")
    _guests(lasting, "renamed", server)
    with pytest.raises(exception.ConfigError, match="host = renamed, .* 1 guests, was h1 before: .*Set host back"):
        lasting.add_host("renamed")
    lasting.add_host("h1")
    assert lasting.guests("h1") == {server: states.RUNNING}


def test_a_host_without_guests_may_have_another_name_and_keeps_it(lasting):
    lasting.end_host("h1")
    lasting.silence("h1")
    lasting.add_host("other")
    server = lasting.active()
    lasting.end_host("other")
    lasting.add_host("other")
    assert lasting.guests("other") == {server: states.RUNNING}


def test_what_the_message_says_helps(lasting):
    server = lasting.active()
    lasting.end_host("h1")
    lasting.set(server, host="renamed")
    _guests(lasting, "renamed", server)
    with pytest.raises(exception.ConfigError) as refused:
        lasting.add_host("renamed")
    with open(refused.value.message.split(" create ")[1].strip(), "w"):
        lasting.add_host("renamed")
    assert lasting.guests("renamed") == {server: states.RUNNING}


def test_a_directory_that_cannot_be_written_is_told(lasting, tmp_path):
    (tmp_path / "file").touch()
    lasting.conf.set_override("state_path", str(tmp_path / "file"))
    with pytest.raises(exception.ConfigError, match="state_path = .*file"):
        lasting.add_host("h2")
