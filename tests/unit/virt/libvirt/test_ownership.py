"""The table of what a host may do with files: each combination, and the rules that no change of the table may break."""
import itertools
import types

import pytest

from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.ownership import RULES, Standing, Whose, rule, whose

SERVERS = [Standing(*one) for one in itertools.product((False, True), repeat=4)]
OURS, ELSEWHERE = Standing(), Standing(is_ours=False)
BROKEN_OFF = [State.BUILDING, State.LEAVING, State.ARRIVING, State.REMOVING]


def of(host, state):
    return rule(Record("guest", host, state), "me")


def test_each_combination_has_a_rule():
    assert RULES.keys() >= {(one, state) for one in (Whose.NOBODYS, Whose.ANOTHERS) for state in State}
    assert {state for one, state in RULES if one is Whose.MINE} == set(State) - {State.UNKNOWN}     # that has no host


@pytest.mark.parametrize(("host", "found"), [("me", Whose.MINE), ("other", Whose.ANOTHERS), ("", Whose.NOBODYS)])
def test_whose_they_are(host, found):
    assert whose(Record("guest", host, State.HERE), "me") is found


@pytest.mark.parametrize("state", State)
def test_a_host_removes_takes_and_replaces_nothing_of_another(state):
    found = of("other", state)
    assert not any(found.removes(server) for server in SERVERS)
    assert (found.takes, found.replaces, found.is_left, found.drops) == (False, False, False, False)


@pytest.mark.parametrize("state", sorted(set(State) - {State.UNKNOWN}))
def test_what_is_nobodys_goes_with_a_server_that_is_unwanted_and_belongs_to_the_host_that_starts_its_guest(state):
    found = of("", state)
    assert [found.removes(server) for server in SERVERS] == [server.is_deleting or server.is_deleted for server in SERVERS]
    assert (found.takes, found.replaces, found.is_left, found.drops) == (True, False, False, False)


def test_what_nobody_has_written_down_goes_with_a_guest_of_this_host():
    found = of("", State.UNKNOWN)
    assert [found.removes(server) for server in SERVERS] == [server.is_ours or server.has_guest for server in SERVERS]
    assert (found.takes, found.replaces, found.is_left, found.drops) == (False, True, False, False)


def test_what_an_evacuation_has_found_stays_while_the_server_is_elsewhere():
    """It is all that there is of it."""
    found = of("me", State.ADOPTED)
    assert [found.removes(server) for server in SERVERS] == [server.is_ours or server.is_deleted for server in SERVERS]
    assert (found.is_left, found.drops) == (False, False)


@pytest.mark.parametrize("state", sorted(set(State) - {State.UNKNOWN, State.ADOPTED}))
def test_what_is_ours_goes_with_the_guest_and_is_left_behind_by_what_has_not_ended(state):
    found = of("me", state)
    assert all(found.removes(server) for server in SERVERS)
    assert (found.is_left, found.drops) == (state in [*BROKEN_OFF, State.ASIDE], state in BROKEN_OFF)
    assert (found.takes, found.replaces) == (False, True)


@pytest.mark.parametrize("host", ["me", "other", ""])
def test_an_evacuation_makes_what_it_finds_nobodys_but_not_what_this_host_has_begun_to_make(host):
    """A guest that is here says that an earlier run has built it, of files that are here only."""
    for state in set(State) - ({State.UNKNOWN} if host else set()):
        adopts = of(host, state).adopts
        if host == "me" and state in BROKEN_OFF:
            assert not any(adopts(server) for server in SERVERS)
        elif host == "me" and state in (State.HERE, State.ASIDE):
            assert [adopts(server) for server in SERVERS] == [not server.has_guest for server in SERVERS]
        else:
            assert all(adopts(server) for server in SERVERS)


@pytest.mark.parametrize(("values", "found"), [
    ({"host": "me", "deleted": 0, "task_state": None}, OURS), ({"host": "other", "deleted": 0, "task_state": None}, ELSEWHERE),
    ({"host": None, "deleted": 7, "task_state": None}, Standing(False, is_deleted=True)),
    ({"host": "me", "deleted": 0, "task_state": "deleting"}, Standing(is_deleting=True))])
def test_what_a_server_is_to_a_host(values, found):
    assert Standing.of(types.SimpleNamespace(**values), "me") == found
    assert Standing.of(types.SimpleNamespace(**values), "me", has_guest=True).has_guest
