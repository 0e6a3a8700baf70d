"""The steps of moves fit together, and nobody is asked to run a guest that may run elsewhere."""
from __future__ import annotations

import pytest

from nova_lite.compute import live_migrate
from nova_lite.objects import migration, states
from nova_lite.operations import VERBS, GuestAt, Where, position, steps

STEPS = [(verb, step) for verb in VERBS.values() for step in verb.steps]
each = pytest.mark.parametrize(("verb", "step"), STEPS, ids=[f"{verb.name}-{step.name}" for verb, step in STEPS])


@each
def test_who_goes_on_is_the_other_host(verb, step):
    if step.partner_goes_on_at is None:
        return
    [partner] = [other for other in verb.steps if other.name == step.partner_goes_on_at]
    assert partner.where is not step.where
    at_partner = GuestAt.SOURCE if partner.where is Where.SOURCE else GuestAt.DESTINATION
    assert step.guest in (at_partner, GuestAt.ASK), "the guest may run at the dead host"


@each
def test_its_states_are_those_of_its_verb(verb, step):
    assert step.task_state is None or step.task_state in verb.working
    assert step.status is None or step.status in verb.move.statuses


def test_a_verb_with_steps_has_one_for_each_task_state():
    for verb in VERBS.values():
        told = [step.task_state for step in verb.steps if step.task_state is not None]
        assert told == [] or tuple(told) == verb.working


def test_a_host_has_a_function_for_each_step_of_a_live_migration():
    assert set(live_migrate.STEPS) == {step.name for step in VERBS["live_migrate"].steps}


@pytest.mark.parametrize(("said", "task_state", "status", "found"), [
    (None, states.RESIZE_PREP, migration.PRE_MIGRATING, states.RESIZE_PREP),
    (None, states.RESIZE_MIGRATED, migration.MIGRATING, states.RESIZE_MIGRATED),
    (None, None, migration.PRE_MIGRATING, states.RESIZE_PREP),
    (None, None, migration.MIGRATING, states.RESIZE_MIGRATING),
    (None, None, migration.POST_MIGRATING, states.RESIZE_FINISH),
    (None, states.DELETING, migration.MIGRATING, None),
    (None, None, migration.ERROR, None),
    ("undo", states.RESIZE_MIGRATING, migration.MIGRATING, "undo"),
    ("undo", None, migration.POST_MIGRATING, "undo")])
def test_where_a_cold_move_stands(said, task_state, status, found):
    """By the task_state of its server; after os-resetState by its move. Of two steps that look alike it is the later one, for
    there the guest may run at the destination."""
    step = position(steps.COLD, said, task_state, status)
    assert (step.name if step is not None else None) == found


def test_where_the_way_back_stands():
    assert position(steps.REVERT, None, states.RESIZE_REVERTING, migration.REVERTING).name == "leave"
    assert position(steps.REVERT, "return", states.RESIZE_REVERTING, migration.REVERTING).name == "return"


def test_where_a_live_migration_stands_says_its_action_alone():
    for step in steps.LIVE:
        assert position(steps.LIVE, step.name, None, migration.RUNNING) is step


def test_a_step_is_done_by_a_host_of_the_move():
    move = migration.Migration(1, "m", "s", "live-migration", "running", "old", dest_compute="new")
    assert {step.name: step.host(move) for step in steps.REVERT} == {"leave": "new", "return": "old"}
