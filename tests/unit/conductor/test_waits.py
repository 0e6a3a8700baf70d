"""Until the scheduler answers, an open event of the action says that it does not."""
from __future__ import annotations

import oslo_messaging as messaging
import pytest

from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.db import actions
from nova_lite.objects import action as objects
from nova_lite.objects import states


def _waits(cloud, action_id):
    """(end, result, details) of the events that tell of waiting."""
    with cloud.db.read() as conn:
        return [(e["finish_time"], e["result"], e["details"]) for e in actions.events_of(conn, action_id)
                if e["event"] == actions.WAIT_EVENT]


def _is_silent(cloud, monkeypatch, times=1, answer=None):
    """The scheduler answers the first questions with nothing, later ones with ``answer`` or as it does."""
    schedulers = (cloud.conductor.builds.scheduler, cloud.conductor.tasks._tools.scheduler)
    asked = []
    for scheduler in schedulers:
        def ask(*arguments, choose=scheduler.select_destinations):
            asked.append(arguments)
            if len(asked) <= times:
                raise messaging.MessagingTimeout("nobody")
            if answer is not None:
                raise answer
            return choose(*arguments)
        monkeypatch.setattr(scheduler, "select_destinations", ask)


def _build(cloud):
    [(server, action_id)] = cloud.create()
    cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
    return server, action_id


SAID = "the scheduler did not answer; it is asked again"


def test_a_build_says_what_it_waits_for_until_the_scheduler_answers(cloud, monkeypatch):
    _is_silent(cloud, monkeypatch, times=2)
    server, action_id = _build(cloud)
    assert _waits(cloud, action_id) == [(None, None, SAID)]
    cloud.sweep()
    cloud.wait_for(lambda: cloud.action(action_id).attempts == 2)
    assert _waits(cloud, action_id) == [(None, None, SAID)]     # told once
    cloud.sweep()
    cloud.wait(server, states.ACTIVE)
    [(finished, result, details)] = _waits(cloud, action_id)
    assert (result, details) == ("Success", SAID)
    assert finished is not None


def test_an_answer_that_there_is_no_host_is_one(cloud, monkeypatch):
    _is_silent(cloud, monkeypatch, answer=exception.NoValidHost(reason="none"))
    server, action_id = _build(cloud)
    cloud.sweep()
    cloud.wait(server, states.ERROR)
    assert [result for _, result, _ in _waits(cloud, action_id)] == ["Success"]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_build_that_is_given_up_waits_no_longer(make_cloud, monkeypatch, attempts):
    cloud = make_cloud("h1", conductor__max_attempts=attempts)
    _is_silent(cloud, monkeypatch, times=9)
    server, action_id = _build(cloud)
    cloud.sweep()
    cloud.wait(server, states.ERROR)
    assert [result for _, result, _ in _waits(cloud, action_id)] == ["Error"] * (attempts - 1)


def test_a_delete_ends_it(cloud, monkeypatch):
    _is_silent(cloud, monkeypatch)
    server, action_id = _build(cloud)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: cloud.action(action_id).state == objects.ERROR)
    assert [result for _, result, _ in _waits(cloud, action_id)] == ["Error"]


def test_a_move_says_so_too(cloud, monkeypatch):
    server = cloud.active()
    _is_silent(cloud, monkeypatch)
    action_id = cloud.operate(server, "migrate")
    cloud.wait_for(lambda: _waits(cloud, action_id))
    assert _waits(cloud, action_id) == [(None, None, SAID)]
    cloud.expire(action_id)
    cloud.sweep()
    cloud.wait(server, states.RESIZED)
    assert [result for _, result, _ in _waits(cloud, action_id)] == ["Success"]
