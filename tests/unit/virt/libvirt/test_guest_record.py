"""The record of a guest's files is read as it was written, and what this version cannot read is no record."""
import json

import pytest

from nova_lite.virt.libvirt.guest_record import Record, State


@pytest.mark.parametrize("record", [
    Record("guest"), *(Record("guest", "host", state) for state in State if state is not State.UNKNOWN),
    Record("guest", "", State.LEAVING),
    Record("guest", "two", State.HERE, "a move", "one"), Record("guest", "one", State.HERE, disk_format="qcow2", base="image"),
    Record("guest", "one", State.HERE, disk_format="raw", base=""), Record("guest", "one", State.LEAVING, post_copy=True)])
def test_what_is_written_is_read(record):
    assert Record.from_json(record.to_json(), "guest") == record


def test_what_is_not_set_is_not_written():
    assert json.loads(Record("guest", "one", State.HERE).to_json()) == {
        "version": 1, "server": "guest", "host": "one", "state": "here"}
    assert json.loads(Record("guest").to_json()) == {"version": 1, "server": "guest", "state": "unknown"}
    assert json.loads(Record("guest", base="").to_json())["base"] == ""


@pytest.mark.parametrize(("change", "reason"), [
    ({"version": 2}, "version 1"), ({"version": None}, "version 1"), ({"state": "asleep"}, "asleep"), ({"state": None}, "None"),
    ({"colour": "red"}, "colour"), ({"state": "unknown"}, "a host and no state"),
    ({"server": "another"}, "record of server 'another'")])
def test_what_another_version_has_written_or_is_another_servers_is_refused(change, reason):
    said = {**json.loads(Record("guest", "one", State.HERE).to_json()), **change}
    with pytest.raises(ValueError, match=reason):
        Record.from_json(json.dumps(said), "guest")


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", '{"version": 1}', '{"version": 1, "state": "here"}'])
def test_what_is_no_record_is_refused(text):
    with pytest.raises(ValueError):
        Record.from_json(text, "guest")
