"""Builds that wait for their network, with real threads and no other parts."""
import threading
import time

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.compute import external_events
from nova_lite.compute.external_events import ExternalEvents
from nova_lite.context import admin_context
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF

SERVER = Instance(uuid="s", project_id="p", user_id="u", display_name="s", flavor=Flavor("1", "tiny", 64, 1, 1))
VIFS = [VIF(port, "n", "private", "fa:16:3e:00:00:01", "ovs", active=active)
        for port, active in (("there", True), ("one", False), ("two", False))]


class States:
    """The one question that a waiting build asks of the network."""

    def __init__(self, **states):
        self.states, self.asked = {"one": "DOWN", "two": "DOWN", **states}, []

    def port_states(self, _context, port_ids):
        self.asked.append(sorted(port_ids))
        if isinstance(self.states, Exception):
            raise self.states
        return {p: s for p, s in self.states.items() if p in port_ids and s}


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr(external_events, "FIRST_LOOK", 0.2)
    monkeypatch.setattr(external_events, "POLL_SECONDS", 0.2)

    def make(states=None, **options):
        conf = nova_conf.load([], config_files=[], **{f"network__vif_plugging_{k}": v for k, v in options.items()})
        return ExternalEvents(conf, states or States())
    return make


def _run(events, while_waiting=lambda: None):
    """Wait as a build does; seconds that it took."""
    began = time.monotonic()
    with events.listen("s") as listener:
        teller = threading.Timer(0.05, while_waiting)
        teller.start()
        listener.waiter(admin_context(), SERVER, VIFS)()
        teller.join()
    return time.monotonic() - began


def test_events_end_the_wait_without_a_question(make, monkeypatch):
    states = States()
    events = make(states)
    monkeypatch.setattr(external_events, "FIRST_LOOK", 60)

    def tell():
        events.tell("s", "network-vif-plugged", "completed", "one")
        events.tell("s", "network-vif-plugged", "in-progress", "two")
        events.tell("s", "network-vif-unplugged", "completed", "two")
        events.tell("other", "network-vif-plugged", "completed", "two")
        events.tell("s", "network-vif-plugged", "completed", "two")
    _run(events, tell)
    assert states.asked == []


def test_an_event_may_come_before_the_guest(make):
    events = make()
    with events.listen("s") as listener:
        events.tell("s", "network-vif-plugged", "completed", "one")
        events.tell("s", "network-vif-plugged", "completed", "two")
        listener.waiter(admin_context(), SERVER, VIFS)()


def test_lost_events_are_asked_for(make):
    states = States(one="ACTIVE")
    events = make(states)
    _run(events, lambda: states.states.update(two="ACTIVE"))        # it would wait for 300 s
    assert states.asked[0] == ["one", "two"]


def test_a_network_that_does_not_answer_may_still_tell(make):
    states = States()
    states.states = exception.ServiceUnavailable(what="Neutron", reason="gone")
    events = make(states)

    def tell():
        time.sleep(0.3)
        for port in ("one", "two"):
            events.tell("s", "network-vif-plugged", "completed", port)
    assert _run(events, tell) >= 0.3


@pytest.mark.parametrize(("event", "reason"), [
    (("network-vif-plugged", "failed", "two"), "network-vif-plugged failed for port two"),
    (("network-vif-deleted", "completed", "one"), "network-vif-deleted completed for port one")])
def test_a_failure_ends_the_build_at_once(make, event, reason):
    events = make()
    with pytest.raises(exception.BuildAborted, match=reason):
        _run(events, lambda: events.tell("s", *event))


@pytest.mark.parametrize(("state", "reason"), [("ERROR", "port two in state ERROR"), (None, "port two was deleted")])
def test_a_port_that_cannot_be_wired_ends_it_too(make, state, reason):
    with pytest.raises(exception.BuildAborted, match=reason):
        _run(make(States(two=state)))


def test_silence_is_fatal(make):
    with pytest.raises(exception.BuildAborted, match="did not report within 1 s that port one, two is wired"):
        _run(make(timeout=1))


def test_or_not(make):
    assert _run(make(timeout=1, is_fatal=False)) >= 1


def test_a_delete_is_not_kept_waiting(make):
    events = make()
    with pytest.raises(exception.UnexpectedTaskState):
        _run(events, lambda: events.interrupt("s"))


def test_nothing_to_wait_for(make):
    with make().listen("s") as listener:
        assert listener.waiter(admin_context(), SERVER, VIFS[:1]) is None
    with make(timeout=0).listen("s") as listener:
        assert listener.waiter(admin_context(), SERVER, VIFS) is None


def test_what_nobody_waits_for_is_dropped(make):
    events = make()
    events.tell("s", "network-vif-plugged", "completed", "one")
    events.interrupt("s")
    with events.listen("s"):
        pass
    events.tell("s", "network-vif-plugged", "failed", "one")


# before a running guest comes ---------------------------------------------------------------------------------------------
def _wait_for_guest(events, while_waiting=lambda: None, check=lambda: None, remind=lambda: None):
    with events.listen("s") as listener:
        teller = threading.Timer(0.05, while_waiting)
        teller.start()
        listener.wait_at_destination(SERVER, ["one", "two"], check, remind)
        teller.join()


def _told(events, *ports):
    for port in ports:
        events.tell("s", "network-vif-plugged", "completed", port)


def test_a_destination_waits_for_events_and_does_not_ask_for_states(make):
    states = States(one="ACTIVE", two="ACTIVE")     # at the source
    events, asked = make(states), []

    def remind():
        asked.append("remind")
        _told(events, "one", "two")
    _wait_for_guest(events, check=lambda: asked.append("check"), remind=remind)
    assert states.asked == []
    assert asked[0] == "check"
    assert asked[-1] == "remind"


def test_a_destination_takes_no_guest_whose_ports_are_not_wired_in_time(make):
    events = make(timeout=1)
    with pytest.raises(exception.MigrationError, match="did not report within 1 s that port two is wired"):
        _wait_for_guest(events, lambda: _told(events, "one"))


def test_a_destination_takes_no_guest_whose_port_fails(make):
    events = make()
    with pytest.raises(exception.MigrationError, match="network-vif-plugged failed for port two"):
        _wait_for_guest(events, lambda: events.tell("s", "network-vif-plugged", "failed", "two"))


def test_a_destination_takes_the_guest_all_the_same_when_that_is_not_fatal(make):
    _wait_for_guest(make(timeout=1, is_fatal=False))


def test_an_abort_ends_the_wait_of_a_destination(make):
    def aborted():
        raise exception.LiveMigrationAborted(instance_id="s")
    with pytest.raises(exception.LiveMigrationAborted):
        _wait_for_guest(make(), check=aborted)


def test_a_destination_that_is_told_not_to_wait_does_not(make):
    with make(timeout=0).listen("s") as listener:
        listener.wait_at_destination(SERVER, ["one"], pytest.fail, pytest.fail)
