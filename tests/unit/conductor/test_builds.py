"""Builds from the cast to ACTIVE, and what becomes of those that fail."""
import contextlib
import dataclasses
import time
import uuid

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.context import admin_context
from nova_lite.db import actions, claims, models
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.network import VIF
from nova_lite.virt import fake


def test_servers_of_one_request_are_built_and_claimed(cloud):
    built = cloud.build(4)
    for server in built:
        found = cloud.wait(server, states.ACTIVE)
        assert (found.power_state, found.fault, found.progress) == (states.RUNNING, None, 0)
        assert found.launched_at is not None
        assert found.host in ("h1", "h2")
        assert cloud.guests(found.host)[server] == states.RUNNING
    assert set().union(*cloud.claimed().values()) == set(built)
    with cloud.db.read() as conn:
        [action] = actions.list_for_instance(conn, built[0])
        assert (action.action, action.state, action.message) == ("create", objects.DONE, None)
        assert [e["event"] for e in actions.events_of(conn, action.id)] == [
            "compute__do_build_and_run_instance", "schedule_instances"]


def test_no_room_anywhere_is_an_error_that_says_why(make_cloud):
    cloud = make_cloud("h1", fake__memory_mb=100, compute__reserved_host_memory_mb=0)
    [server] = cloud.build()
    found = cloud.wait(server, states.ERROR)
    assert "RamFilter left 0" in found.fault["message"]
    assert found.host is None
    assert cloud.claimed() == {}


def test_a_failed_build_goes_to_the_next_host(cloud):
    cloud.fail("spawn@h1")
    built = cloud.build(2)
    for server in built:
        assert cloud.wait(server, states.ACTIVE).host == "h2"
    assert cloud.claimed() == {"h2": set(built)}
    assert cloud.guests("h1") == {}
    with cloud.db.read() as conn:
        nodes = models.compute_nodes
        failed = dict(conn.execute(sa.select(nodes.c.host, nodes.c.failed_builds)).all())
    assert failed == {"h1": 1, "h2": 0}


def test_when_every_host_failed_the_fault_names_cause_and_hosts(cloud):
    cloud.fail("spawn")
    [server] = cloud.build()
    found = cloud.wait(server, states.ERROR)
    assert "[fake] fail = spawn" in found.fault["message"]
    assert "Hosts tried: " in found.fault["details"]
    assert "h1" in found.fault["details"]
    assert "h2" in found.fault["details"]
    assert found.host is None
    assert cloud.claimed() == {}


def test_a_build_that_no_host_can_do_has_no_host_and_no_nics(make_cloud):
    """Its ports and its room were given back: the server may not name them any more."""
    cloud = make_cloud("h1", "h2", fake__fetch_images=True)
    network_info = [VIF(str(uuid.uuid4()), "n", "net", "fa:16:3e:00:00:01", "null").to_primitive()]
    [server] = cloud.build(image=ImageMeta(str(uuid.uuid4())), network_info=network_info)
    found = cloud.wait(server, states.ERROR)
    assert "was deleted after the server was asked for" in found.fault["message"]
    assert (found.host, found.node, found.network_info, cloud.claimed()) == (None, None, [], {})


@contextlib.contextmanager
def broken_scheduler(cloud):
    """It answers every question with an error of its own, since a table that it reads is missing."""
    cloud.run(sa.text("ALTER TABLE aggregates RENAME TO away"))
    yield
    cloud.run(sa.text("ALTER TABLE away RENAME TO aggregates"))


def test_builds_outlive_a_scheduler_that_fails(cloud):
    [(server, action_id)] = cloud.create()
    with broken_scheduler(cloud):
        cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
        assert (cloud.action(action_id).state, cloud.get(server).vm_state) == (objects.PENDING, states.BUILDING)
    cloud.sweep()
    cloud.wait(server, states.ACTIVE)
    assert cloud.wait_action(action_id, objects.DONE).attempts == 1


def test_a_scheduler_that_always_fails_is_not_asked_for_ever(make_cloud):
    cloud = make_cloud("h1", conductor__max_attempts=2)
    [(server, action_id)] = cloud.create()
    with broken_scheduler(cloud):
        cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
        cloud.sweep()
        found = cloud.wait(server, states.ERROR)
    assert "Scheduling failed 2 times" in found.fault["message"]
    assert "aggregates" not in found.fault["message"]
    assert cloud.claimed() == {}


@pytest.mark.parametrize("error", [messaging.MessageDeliveryFailure("no broker"), messaging.MessagingTimeout("nobody")])
def test_builds_outlive_a_scheduler_that_is_not_there(cloud, error):
    scheduler, asked = cloud.conductor.builds.scheduler, []
    choose = scheduler.select_destinations

    def away_at_first(*arguments):
        asked.append(arguments)
        if len(asked) == 1:
            raise error
        return choose(*arguments)
    scheduler.select_destinations = away_at_first
    [(server, action_id)] = cloud.create()
    cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
    assert cloud.action(action_id).state == objects.PENDING
    cloud.sweep()
    cloud.wait(server, states.ACTIVE)


def test_hosts_that_are_back_right_after_the_scheduler_has_looked_are_asked_again(cloud):
    scheduler, asked = cloud.conductor.builds.scheduler, []
    choose = scheduler.select_destinations

    def back_too_late(*arguments):
        asked.append(arguments)
        if len(asked) > 1:
            return choose(*arguments)
        for host in cloud.hosts:
            cloud.report(host)
        raise exception.NoValidHost(reason="2 hosts, ComputeFilter left 0")
    scheduler.select_destinations = back_too_late
    cloud.conductor.bus_health.since = time.monotonic()        # nobody heard anything until now
    [(server, action_id)] = cloud.create()
    cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
    assert cloud.action(action_id).state == objects.PENDING
    cloud.sweep()
    cloud.wait(server, states.ACTIVE)


def second_answer(cloud, meanwhile):
    """The scheduler is asked twice, as the first answer is lost; ``meanwhile`` runs before the second one arrives, as the
    first question may still be on its way. Returns the server and its action."""
    scheduler, asked = cloud.conductor.builds.scheduler, []
    choose = scheduler.select_destinations

    def ask(*arguments):
        asked.append(arguments)
        answer = choose(*arguments)
        if len(asked) == 1:
            raise messaging.MessagingTimeout("the answer is lost")
        if len(asked) == 2:
            meanwhile()
        return answer
    scheduler.select_destinations = ask
    [(server, action_id)] = cloud.create()
    cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
    return server, action_id


def test_room_that_a_late_scheduler_gave_back_is_claimed_again(cloud):
    server, action_id = second_answer(cloud, lambda: cloud.db.write(claims.release, server))
    cloud.sweep()
    found = cloud.wait(server, states.ACTIVE)
    assert cloud.claimed() == {found.host: {server}}
    assert cloud.action(action_id).attempts == 1


def test_a_server_whose_room_was_given_to_another_meanwhile_is_placed_again(cloud):
    nodes = models.compute_nodes

    def lose():
        cloud.db.write(claims.release, server)
        cloud.run(sa.update(nodes).values(vcpus_used=10**6, updated_at=units.utcnow()))
    server, action_id = second_answer(cloud, lose)
    cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
    found, action = cloud.get(server), cloud.action(action_id)
    assert (found.host, found.task_state) == (None, states.SCHEDULING)
    assert (action.state, action.stage, action.attempts) == (objects.PENDING, objects.CONDUCTOR, 2)
    cloud.run(sa.update(nodes).values(vcpus_used=0, updated_at=units.utcnow()))
    cloud.sweep()
    found = cloud.wait(server, states.ACTIVE)
    assert cloud.claimed() == {found.host: {server}}


def test_builds_wait_for_hosts_that_could_not_report(cloud):
    for host in ("h1", "h2"):
        cloud.silence(host)
    cloud.conductor.bus_health.since = time.monotonic()        # the broker has just come back
    [(server, action_id)] = cloud.create()
    cloud.conductor.schedule_and_build_instances(admin_context(), [action_id])
    assert cloud.action(action_id).state == objects.PENDING
    cloud.report("h1")
    cloud.sweep()
    assert cloud.wait(server, states.ACTIVE).host == "h1"
    for host in ("h1", "h2"):
        cloud.silence(host)
    cloud.conductor.bus_health.since -= 60         # time enough: those are dead
    [late] = cloud.build()
    cloud.wait(late, states.ERROR)


class Refusing(fake.FakeDriver):
    """Says of every guest that no host can build it."""

    def spawn(self, instance, network_info, files, fetch_image, wait_for_network=None, check=None):
        raise exception.BuildAborted(instance_id=instance.uuid, reason="the image is no image")


def test_what_no_host_can_build_is_not_tried_elsewhere(cloud):
    for name, manager in cloud.hosts.items():
        manager.host = dataclasses.replace(manager.host, driver=Refusing(cloud.conf, name))
    [server] = cloud.build()
    found = cloud.wait(server, states.ERROR)
    assert "the image is no image" in found.fault["message"]
    assert "Hosts tried" not in found.fault["message"]
    assert cloud.claimed() == {}
    with cloud.db.read() as conn:
        [action] = actions.list_for_instance(conn, server)
        assert action.state == objects.ERROR
        assert [e["event"] for e in actions.events_of(conn, action.id)].count("compute__do_build_and_run_instance") == 1


def test_delete_of_a_server_without_host(make_cloud):
    cloud = make_cloud()
    [server] = cloud.build()
    cloud.wait(server, states.ERROR)
    action_id = cloud.operate(server, "delete")
    cloud.wait_action(action_id, objects.DONE)
    assert cloud.get(server).deleted
