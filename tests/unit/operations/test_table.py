"""The table of verbs is complete, and the other parts of a verb are there."""
from __future__ import annotations

import pytest

from nova_lite.compute import verbs
from nova_lite.conductor.tasks.runner import TASKS
from nova_lite.objects import migration, states
from nova_lite.operations import VERBS, Begins, Guest, IfHostDies, Runs, WithoutHost
from tests.unit.api.compute.conftest import TABLE

ROUTES = {entry.route.action or f"{entry.route.method} {entry.route.path}" for entry in TABLE.entries}
each = pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)


@each
def test_a_user_can_ask_for_it(verb):
    assert verb.request in ROUTES


@each
def test_a_host_has_functions_for_it(verb):
    assert callable(verbs.FUNCTIONS[verb.name].carry_out)
    assert callable(verbs.FUNCTIONS[verb.name].settle)


@each
def test_a_conductor_has_a_task_for_it_where_it_begins_there(verb):
    """New servers are placed many at once, by a task of their own."""
    assert (verb.name in TASKS) == (verb.begins is Begins.CONDUCTOR and not verb.new_server)


def test_nobody_works_on_what_is_no_verb():
    assert set(verbs.FUNCTIONS) == set(VERBS)
    assert set(TASKS) < set(VERBS)


@each
def test_its_states_are_states(verb):
    known = {value for name, value in vars(states).items() if name.isupper() and isinstance(value, str)}
    assert set(verb.vm_states) <= set(states.VM_STATES)
    assert set(verb.task_states) - {None} <= known
    assert set(verb.working) <= known
    assert verb.ends_in is None or verb.ends_in in states.VM_STATES
    assert verb.fails_in is None or verb.fails_in in states.VM_STATES


@each
def test_it_says_where_it_ends(verb):
    """A success that leads to another vm_state has a power_state; what ends where it began fails there, too."""
    assert (verb.ends_in is None) == (verb.power_state is None)
    assert verb.ends_in is None or verb.working, "a server on its way needs a task_state"
    assert verb.ends_in is not None or verb.fails_in is None


@each
def test_what_changes_no_state_waits_for_its_host(verb):
    assert not verb.keeps_state or verb.if_host_dies is IfHostDies.WAIT


@each
def test_a_move_is_whole(verb):
    move = verb.move
    if move is None:
        assert verb.if_host_dies is not IfHostDies.PARTNER, "only a move has two hosts"
        assert verb.guest is Guest.ONE
        return
    assert verb.working
    assert move.statuses
    assert move.fails_as in migration.ENDED
    assert (move.type is None) == verb.settles_move, "what ends a move makes no row of its own"
    assert verb.begins in (Begins.CONDUCTOR, Begins.SOURCE, Begins.DESTINATION)
    assert verb.settles_move == (verb.begins is not Begins.CONDUCTOR)


@each
def test_a_guest_that_may_run_on_two_hosts_is_written_down_as_such(verb):
    """The task_states of such a verb keep others from the server's host."""
    moves_guest = verb.move is not None and not (verb.settles_move and not verb.move.to_source)
    assert (verb.guest is not Guest.ONE) == moves_guest


@each
def test_its_host_may_not_write_where_the_server_is_unless_it_moves(verb):
    assert "host" not in verb.writes or verb.move is not None or verb.if_host_dies is IfHostDies.STAY_SHELVED


@each
def test_a_delete_needs_no_host(verb):
    """A soft delete does: there must be a guest to turn off."""
    assert (verb.without_host is WithoutHost.DELETE) == verb.is_delete
    assert not verb.is_delete or verb.if_host_dies is IfHostDies.DONE


@each
def test_new_servers_alone_have_threads_of_their_own(verb):
    assert (verb.runs is Runs.BUILD) == verb.new_server


def test_a_row_is_found_by_its_name():
    """What a host calls its work in os-instance-actions belongs to one action, but for what Nova names twice."""
    assert all(name == verb.name for name, verb in VERBS.items())
    by_event = {}
    for verb in VERBS.values():
        by_event.setdefault(verb.event, set()).add(verb.action)
    assert {event: found for event, found in by_event.items() if len(found) > 1} == {
        "finish_resize": {"resize", "migrate"}, "rebuild_instance": {"rebuild", "evacuate"}}
