"""What waits: for a scheduler, which an open event of the action says, and for hosts that could not report."""
from __future__ import annotations

import time

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


def _outage(cloud):
    """No host was heard for an hour, and this conductor has just begun to listen."""
    for host in ("h1", "h2"):
        cloud.silence(host)
    cloud.conductor.bus_health.since = time.monotonic()


def _is_waiting(cloud, action_id):
    """Released by its conductor, and counted as no attempt of a worker."""
    found = cloud.action(action_id)
    return (found.state, found.stage, found.attempts, found.owner) == (objects.PENDING, objects.CONDUCTOR, 0, None)


def _asks(cloud, monkeypatch):
    """The list of the questions to the scheduler, which grows."""
    asked = []
    scheduler = cloud.conductor.tasks._tools.scheduler

    def ask(*arguments, choose=scheduler.select_destinations):
        asked.append(arguments)
        return choose(*arguments)
    monkeypatch.setattr(scheduler, "select_destinations", ask)
    return asked


def test_a_move_waits_for_hosts_that_could_not_report(cloud, monkeypatch):
    server, asked = cloud.active(), _asks(cloud, monkeypatch)
    source = cloud.get(server).host
    _outage(cloud)
    action_id = cloud.operate(server, "migrate", {"host": None})
    cloud.wait_for(lambda: asked and _is_waiting(cloud, action_id))
    for host in ("h1", "h2"):
        cloud.report(host)
    cloud.sweep()
    assert cloud.wait(server, states.RESIZED).host != source


def test_a_move_for_which_there_is_no_host_fails_when_hosts_have_had_time(cloud):
    server = cloud.active()
    _outage(cloud)
    cloud.conductor.bus_health.since -= 60
    action_id = cloud.operate(server, "migrate", {"host": None})
    cloud.wait_action(action_id, objects.ERROR)
    assert "No valid host" in cloud.wait(server, states.ACTIVE).fault["message"]


def test_a_live_migration_waits_for_its_silent_source(cloud, monkeypatch):
    server = cloud.active()
    source = cloud.get(server).host
    _outage(cloud)
    action_id = cloud.operate(server, "live_migrate", {"host": None, "force": False, "block_migration": "auto"})
    cloud.wait_for(lambda: _is_waiting(cloud, action_id))
    for host in ("h1", "h2"):
        cloud.report(host)
    cloud.sweep()
    cloud.wait_for(lambda: cloud.get(server).host != source)
    cloud.wait(server, states.ACTIVE)


@pytest.mark.parametrize("returns", [True, False], ids=["the host lives", "the host is dead"])
def test_an_evacuation_waits_until_silence_counts(cloud, returns):
    server = cloud.active()
    source = cloud.get(server).host
    [other] = {"h1", "h2"} - {source}
    _outage(cloud)
    cloud.report(other)
    action_id = cloud.operate(server, "evacuate", {"host": None, "force": False, "stopped": False})
    cloud.wait_for(lambda: _is_waiting(cloud, action_id))
    if returns:
        cloud.report(source)
        cloud.sweep()
        cloud.wait_action(action_id, objects.ERROR)
        assert "still in use" in cloud.get(server).fault["message"]
        assert cloud.get(server).host == source
    else:
        cloud.conductor.bus_health.since -= 60
        cloud.sweep()
        cloud.wait_action(action_id, objects.DONE)
        assert cloud.get(server).host == other
