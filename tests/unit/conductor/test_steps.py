"""Steps of many actions in one message: one that is refused leaves the others alone."""
import datetime

import pytest
import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.context import admin_context
from nova_lite.db import actions, models, server_passwords, services
from nova_lite.objects import action as objects
from nova_lite.objects import states

ADMIN = admin_context()


def stopping(cloud, count, owner="worker"):
    """Servers with a stop that one worker has claimed in one message: [(server, action id)]."""
    servers = cloud.build(count)
    for server in servers:
        cloud.wait(server, states.ACTIVE)
    ids = [cloud.begin(server, "stop") for server in servers]
    claimed = cloud.rpc.claim_actions(ids, "h1", owner)
    assert [c["instance"]["uuid"] for c in claimed] == servers
    return list(zip(servers, ids, strict=True))


def finish(action_id, owner="worker"):
    event = actions.event("compute_stop_instance", "h1", units.utcnow())
    return ["finish_action", {"action_id": action_id, "owner": owner, "updates": {}, "events": [event], "error": None}]


def test_one_lost_lease_in_a_message_is_the_only_refusal(make_cloud):
    cloud = make_cloud("h1")
    (one, first), (two, second), (three, third) = stopping(cloud, 3)
    answers = cloud.rpc.call(ADMIN, "steps", calls=[finish(first), finish(second, "another"), finish(third)])
    assert ["error" in answer for answer in answers] == [False, True, False]
    assert answers[1]["error"][0] == "LeaseLost"
    assert [cloud.get(s).vm_state for s in (one, two, three)] == [states.STOPPED, states.ACTIVE, states.STOPPED]
    assert [cloud.action(i).state for i in (first, second, third)] == [objects.DONE, objects.RUNNING, objects.DONE]
    with cloud.db.read() as conn:
        assert [len(actions.events_of(conn, i)) for i in (first, second, third)] == [1, 0, 1]


def test_one_server_in_another_state_is_the_only_one_that_is_not_changed(make_cloud):
    cloud = make_cloud("h1")
    (one, first), (two, second) = stopping(cloud, 2)
    cloud.set(two, task_state=states.DELETING)
    answers = cloud.rpc.call(ADMIN, "steps", calls=[
        ["instance_update", {"instance_uuid": server, "updates": {"progress": 50}, "action_id": action_id,
                             "expected_task_states": [states.POWERING_OFF], "owner": "worker"}]
        for server, action_id in ((one, first), (two, second))])
    assert answers[0] == {"result": None}
    assert answers[1]["error"][0] == "UnexpectedTaskState"
    assert [cloud.get(s).progress for s in (one, two)] == [50, 0]


def test_only_who_may_run_a_guest_has_it_noted(make_cloud):
    cloud = make_cloud("h1")
    (one, first), (two, second), (three, third) = stopping(cloud, 3)
    cloud.set(two, task_state=states.DELETING)
    answers = cloud.rpc.call(ADMIN, "steps", calls=[
        ["instance_update", {"instance_uuid": server, "updates": {}, "action_id": action_id, "guest_begins": True,
                             "expected_task_states": [states.POWERING_OFF], "owner": owner}]
        for server, action_id, owner in ((one, first, "worker"), (two, second, "worker"), (three, third, "another"))])
    assert ["error" in answer for answer in answers] == [False, True, True]
    assert [cloud.action(i).arguments.get(objects.GUEST_AT) for i in (first, second, third)] == ["h1", None, None]


def test_servers_deleted_in_one_message_give_back_all_that_they_held(make_cloud):
    cloud = make_cloud("h1")
    servers = cloud.build(5)
    for server in servers:
        cloud.wait(server, states.ACTIVE)
    assert cloud.claimed() == {"h1": set(servers)}
    ids = [cloud.operate(server, "delete") for server in servers]
    for action_id in ids:
        cloud.wait_action(action_id, objects.DONE)
    assert cloud.claimed() == {}
    assert cloud.guests("h1") == {}
    assert all(cloud.get(server).deleted for server in servers)


def test_an_unknown_action_is_nobodys(make_cloud):
    cloud = make_cloud("h1")
    assert cloud.rpc.claim_actions([4711], "h1", "worker") == [None]
    assert cloud.rpc.call(ADMIN, "steps", calls=[finish(4711)])[0]["error"][0] == "LeaseLost"


@pytest.mark.parametrize("verb", ["trigger_crash_dump", "stop", "reboot_hard", "rebuild", "shelve"])
def test_what_was_begun_where_the_guest_was_goes_after_it(make_cloud, verb):
    """Else os-resetState in the middle of a move would let the old host change what is not there, or start a second guest."""
    cloud = make_cloud("h1", "h2")
    server = cloud.active()
    old = cloud.get(server).host
    new = "h2" if old == "h1" else "h1"
    action_id = cloud.begin(server, verb)
    cloud.set(server, host=new)
    assert cloud.claim(action_id, old, "worker") is None
    assert cloud.action(action_id).host == new
    cloud.wait_for(lambda: cloud.action(action_id).state in (objects.DONE, objects.ERROR))


@pytest.mark.parametrize("verb", ["delete", "soft_delete"])
def test_only_a_delete_for_good_is_done_where_it_was_begun(make_cloud, verb):
    """Whatever is left of the server there goes, too."""
    cloud = make_cloud("h1", "h2")
    server = cloud.active()
    old = cloud.get(server).host
    action_id = cloud.begin(server, verb)
    cloud.set(server, host="h2" if old == "h1" else "h1")
    assert (cloud.claim(action_id, old, "worker") is not None) == (verb == "delete")


# power states -------------------------------------------------------------------------------------------------------
def test_a_guest_that_went_off_by_itself_is_seen(make_cloud):
    cloud = make_cloud("h1")
    server = cloud.active()
    cloud.hosts["h1"].host.driver._set(server, {"power_state": states.SHUTDOWN})
    cloud.hosts["h1"]._sync_power_states()
    assert cloud.wait(server, states.STOPPED).power_state == states.SHUTDOWN


def test_a_look_at_the_guests_that_is_out_of_date_changes_nothing(make_cloud):
    cloud = make_cloud("h1")
    server = cloud.active()
    manager = cloud.hosts["h1"]
    look = manager.conductor.sync_power_states(ADMIN, "h1", {server: states.SHUTDOWN})    # as it was a moment ago
    assert {name: found for name, found in look.items() if found} == {"look": [server]}
    assert cloud.get(server).vm_state == states.ACTIVE
    manager._power_changed(server, states.SHUTDOWN)     # looked at again: it runs
    cloud.wait_for(lambda: not manager._queues.is_busy(server))
    assert cloud.get(server).vm_state == states.ACTIVE


def test_the_guest_of_a_server_that_settled_elsewhere_is_removed(make_cloud):
    cloud = make_cloud("h1")
    server = cloud.active()
    cloud.set(server, host="h2")
    cloud.hosts["h1"]._sync_power_states()
    cloud.wait_for(lambda: cloud.guests("h1") == {})
    assert cloud.get(server).vm_state == states.ACTIVE


def test_a_guest_that_nobody_knows_is_left_alone(make_cloud):
    cloud = make_cloud("h1")
    server = cloud.active()
    cloud.hosts["h1"].host.driver._set("not-ours", {"power_state": states.RUNNING})
    cloud.hosts["h1"]._sync_power_states()
    cloud.wait_for(lambda: not cloud.hosts["h1"]._queues.is_busy(server))
    assert set(cloud.guests("h1")) == {server, "not-ours"}


@pytest.mark.parametrize("ends", [False, True])
def test_a_host_knows_nothing_newer_of_the_guests_password(make_cloud, ends):
    """It writes all of system_metadata, as it was when the host took the action up."""
    cloud = make_cloud("h1")
    server = cloud.active()
    before = cloud.get(server).system_metadata
    cloud.set(server, vm_state=states.SHELVED, system_metadata={**before, "shelved_host": "h1"})
    action_id = cloud.begin(server, "unshelve", host="h1")
    cloud.db.write(actions.hand_over, [action_id], 60, objects.COMPUTE, "h1")
    assert cloud.claim(action_id, "h1", "worker") is not None
    cloud.db.write(server_passwords.set_once, server, "new")
    updates = {"system_metadata": {**before, "password_0": "old", "shelved_host": "h1", "unshelved_host": "h1", "other": "x"}}
    if ends:
        cloud.rpc.finish_action(action_id, "worker", updates, [])
    else:
        cloud.rpc.instance_update(server, updates, [states.UNSHELVING], action_id, "worker")
    found = cloud.get(server)
    assert found.encrypted_password == "new"
    assert found.system_metadata | {"shelved_host": "h1", "unshelved_host": "h1"} == found.system_metadata
    assert "other" not in found.system_metadata


# reports ------------------------------------------------------------------------------------------------------------
def test_a_service_whose_record_was_deleted_comes_back_with_its_next_report(make_cloud):
    cloud = make_cloud("h1")
    cloud.run(sa.delete(models.services).where(models.services.c.host == "h1"))
    cloud.report("h1")
    with cloud.db.read() as conn:
        found = {row["host"]: row for row in services.list_all(conn, binary=services.COMPUTE)}
    assert found["h1"]["last_seen_at"] > units.utcnow() - datetime.timedelta(seconds=60)


def test_a_report_renews_what_the_host_works_on(make_cloud):
    cloud = make_cloud("h1")
    [(_, action_id)] = stopping(cloud, 1)
    cloud.expire(action_id)
    report = {"host": "h1", "owner": "worker", "actions": [action_id]}
    assert cloud.rpc.heartbeat(ADMIN, report) == {"actions": []}
    assert cloud.action(action_id).lease_until > units.utcnow()
    cloud.rpc.heartbeat(ADMIN, {**report, "owner": "another"})
    assert cloud.action(action_id).owner == "worker"


@pytest.mark.parametrize("wrong", [{"disk_available_least": -(1 << 70)}, {"hypervisor_hostname": None}])
def test_an_inventory_that_cannot_be_stored_costs_the_host_no_lease(make_cloud, wrong):
    cloud = make_cloud("h1")
    [(_, action_id)] = stopping(cloud, 1)
    cloud.expire(action_id)
    cloud.silence("h1")
    inventory = cloud.hosts["h1"].host.driver.inventory().to_primitive() | wrong
    with pytest.raises((OverflowError, sa.exc.IntegrityError)):
        cloud.conductor.heartbeat(ADMIN, {"host": "h1", "owner": "worker", "actions": [action_id], "inventory": inventory,
                                          "ratios": {}, "reserved": {}})
    assert cloud.action(action_id).lease_until > units.utcnow()
    with cloud.db.read() as conn:
        [found] = services.list_all(conn, binary=services.COMPUTE)
    assert found["last_seen_at"] > units.utcnow() - datetime.timedelta(seconds=60)


def test_a_host_without_its_hypervisor_keeps_what_it_works_on_and_is_not_seen(make_cloud, monkeypatch):
    cloud = make_cloud("h1")
    host = cloud.hosts["h1"]
    [(_, action_id)] = stopping(cloud, 1, host.host.owner)
    cloud.expire(action_id)
    cloud.silence("h1")
    monkeypatch.setattr(host.leases, "in_flight", lambda: [action_id])

    def inventory():
        raise exception.VirtDriverError(what="libvirt", reason="nobody listens")
    monkeypatch.setattr(host.host.driver, "inventory", inventory)
    with pytest.raises(exception.VirtDriverError):
        cloud.report("h1")
    assert cloud.action(action_id).lease_until > units.utcnow()
    with cloud.db.read() as conn:
        [found] = services.list_all(conn, binary=services.COMPUTE)
    assert found["last_seen_at"] < units.utcnow() - datetime.timedelta(seconds=60)


def test_a_host_whose_report_could_not_be_written_down_was_not_seen(make_cloud):
    cloud = make_cloud("h1")
    cloud.silence("h1")
    with pytest.raises(sa.exc.StatementError):
        cloud.conductor.heartbeat(ADMIN, {"host": "h1", "owner": "worker", "actions": [{}]})
    with cloud.db.read() as conn:
        [found] = services.list_all(conn, binary=services.COMPUTE)
    assert found["last_seen_at"] < units.utcnow() - datetime.timedelta(seconds=60)


def test_a_host_that_was_given_up_removes_what_was_deleted_without_it(make_cloud):
    cloud = make_cloud("h1")
    server = cloud.active()
    manager = cloud.hosts["h1"]
    cloud.report("h1")
    cloud.report("h1")                              # both looks after the start are over
    cloud.silence("h1")
    action_id = cloud.begin(server, "delete")
    cloud.expire(action_id)
    cloud.sweep()
    assert cloud.get(server).deleted
    cloud.report("h1")
    assert set(cloud.guests("h1")) == {server}      # it does not know yet that it was given up
    manager._last_report -= 3600                    # an hour without an answer
    cloud.report("h1")
    cloud.wait_for(lambda: cloud.guests("h1") == {})


@pytest.mark.parametrize("odd", ["a verb of another version", "a move that is gone", "an answer of another version"])
def test_an_action_that_cannot_be_answered_costs_no_other_its_lease(make_cloud, monkeypatch, odd):
    cloud = make_cloud("h1")
    servers = cloud.build(3)
    for server in servers:
        cloud.wait(server, states.ACTIVE)
    first, second, third = [cloud.begin(server, "stop") for server in servers]
    given = {"a verb of another version": {"verb": "teleport", "arguments": {}},
             "a move that is gone": {"arguments": {"migration_id": 4711}}}
    if odd in given:
        table = models.instance_actions
        cloud.run(sa.update(table).where(table.c.id == second).values(**given[odd]))
    else:
        asked = cloud.hosts["h1"].conductor.claim_actions

        def garbled(ids, *arguments):
            answers = asked(ids, *arguments)
            for answer in answers:
                if answer is not None and answer["action"]["id"] == second:
                    answer["action"] |= {"verb": "teleport", "arguments": {}}
            return answers
        monkeypatch.setattr(cloud.hosts["h1"].conductor, "claim_actions", garbled)
    cloud.report("h1")
    for action_id in (first, third):
        assert cloud.wait_action(action_id, objects.DONE).attempts == 0
    assert cloud.action(second).state in (objects.PENDING, objects.RUNNING)
    cloud.wait_for(lambda: not cloud.hosts["h1"].leases.in_flight())
