"""Who holds one compute host's credentials tries each method of the conductor for another host's servers: nothing."""
import inspect

import pytest
import sqlalchemy as sa

from nova_lite import exception
from nova_lite.conductor.between_hosts import QUESTIONS
from nova_lite.conductor.rpc_permissions import RULES
from nova_lite.db import aggregates, instances, models
from nova_lite.objects.network import VIF
from nova_lite.operations import VERBS
from nova_lite.rpc import _Exposed
from tests.security.world import ADMIN, TOKEN, World

STEPS = ("claim_action", "instance_update", "block_device_update", "nic_update", "migration_update", "hand_over",
         "release_action", "finish_action", "build_failed")


def step(name, **arguments):
    return "steps", {"calls": [[name, arguments]]}


def update(w, action, server, **updates):
    return step("instance_update", instance_uuid=server, updates=updates, action_id=action, owner=w.owner("h2"),
                expected_task_states=[None])


def finish(w, action, owner, updates=None, events=(), error=None):
    return step("finish_action", action_id=action, owner=w.owner(owner), updates=updates or {}, events=list(events),
                error=error)


def verb_of(question):
    kind = QUESTIONS[question].kind
    return next(verb.name for verb in VERBS.values() if verb.move is not None and verb.move.kind is kind)


def report(host, owner, **more):
    return "heartbeat", {"report": {"host": host, "owner": owner, "actions": [], **more}}


EVENT = {"event": "x", "start_time": "2026-01-01T00:00:00", "finish_time": None, "result": "Success", "details": None}

NIC = VIF("p", "n", "name", "fa:16:3e:00:00:01", "bridge").to_primitive()

# method or step -> what h2 tries with it. A call of h2 for itself that only gives less than was asked for is an attack, too.
ATTACKS = {
    "ping": lambda w: [],
    "cloud": lambda w: [],
    "schedule_and_build_instances": lambda w: [("schedule_and_build_instances", {"action_ids": [w.their_stop]})],
    "run_action": lambda w: [("run_action", {"action_ids": [w.their_stop]})],
    "get_console_auth_token": lambda w: [("get_console_auth_token", {"token_digest": TOKEN})],
    "key_generations": lambda w: [("key_generations", {"host": "h1"})],
    "ask_other_host": lambda w: [
        ("ask_other_host", {"action_id": action, "owner": w.owner(owner), "question": question})
        for question in QUESTIONS for action, owner in (
            (w.their_stop, "h1"), (w.my_stop, "h2"), (w.their_move, "h1"), (w.their_move, "h2"),
            (w.hold("h2", w.mine, verb_of(question), migration_id=w.move), "h2"))],
    "instance_by_address": lambda w: [("instance_by_address", {"address": w.port["address"], "network_id": None})],
    "instance_metadata": lambda w: [("instance_metadata", {"instance_uuid": w.theirs})],
    "set_server_password": lambda w: [("set_server_password", {"instance_uuid": w.theirs, "password": "mine"})],
    "heartbeat": lambda w: [report("h1", w.owner("h1")), report("h1", w.owner("h2")), report("h2", w.owner("h1"))],
    "host_started": lambda w: [("host_started", {"host": host, "owner": w.owner(owner), "guests": [w.theirs, w.gone]})
                               for host, owner in (("h1", "h1"), ("h1", "h2"), ("h2", "h1"))],
    "power_state_changed": lambda w: [
        ("power_state_changed", {"instance_uuid": w.theirs, "host": host, "power_state": 4}) for host in ("h1", "h2")],
    "sync_power_states": lambda w: [
        ("sync_power_states", {"host": host, "states": {w.theirs: 1, w.gone: 1}}) for host in ("h1", "h2")],
    "not_wanted": lambda w: [("not_wanted", {"host": "h1", "instance_uuids": [w.theirs]})],
    "settled_here": lambda w: [("settled_here", {"host": "h1", "instance_uuids": [w.theirs]})],
    "must_be_off": lambda w: [("must_be_off", {"host": "h1", "instance_uuids": [w.theirs]})],
    "network_info_changed": lambda w: [
        ("network_info_changed", {"instance_uuid": w.theirs, "host": host, "network_info": []}) for host in ("h1", "h2")] + [
        ("network_info_changed", {"instance_uuid": w.mine, "host": "h2", "network_info": [{"id": "p"}]})],
    "share_is_used": lambda w: [("share_is_used", {"host": "h1", "share_id": "s", "besides": w.mine})],
    "get_instance": lambda w: [("get_instance", {"instance_uuid": w.theirs})],
    "list_networks": lambda w: [],      # bridges and addresses only: see below
    "allocate_ports": lambda w: [
        ("allocate_ports", {"instance_uuid": server, "project_id": "victims-project", "host": host,
                            "requests": [{"network_id": w.network}]})
        for server, host in ((w.theirs, "h2"), (w.theirs, "h1"), (w.mine, "h2"))],
    "release_ports": lambda w: [("release_ports", {"instance_uuid": w.theirs})],
    "release_port": lambda w: [("release_port", {"instance_uuid": w.theirs, "port_id": w.port["uuid"], "key": None})],
    "move_ports": lambda w: [("move_ports", {"instance_uuid": server, "host": host})
                             for server, host in ((w.theirs, "h2"), (w.mine, "h1"))],
    "list_server_ports": lambda w: [("list_server_ports", {"instance_uuid": w.theirs})],
    "list_host_ports": lambda w: [("list_host_ports", {"host": "h1"})],
    "rules_for": lambda w: [("rules_for", {"group_ids": [w.group]})],
    "steps": lambda w: [],              # each of them:
    "claim_action": lambda w: [
        step("claim_action", action_id=w.wait_for("h1", w.theirs, "stop"), host=host, owner=w.owner(owner), task_state=None)
        for host, owner in (("h1", "h1"), ("h1", "h2"), ("h2", "h2"))],
    "instance_update": lambda w: [
        update(w, w.my_stop, w.theirs, power_state=4), update(w, w.my_stop, w.theirs),
        *(update(w, w.my_stop, w.mine, **{column: "h1"}) for column in ("project_id", "user_id", "host", "node", "flavor")),
        update(w, w.my_stop, w.mine, system_metadata={"shelved_image_id": "x"}), update(w, w.my_stop, w.mine, deleted=1),
        # what nobody could read any more, so that lists of servers fail
        update(w, w.my_build, w.mine, network_info=[{"id": "p"}]), update(w, w.my_stop, w.mine, vm_state="nonsense"),
        update(w, w.my_stop, w.mine, power_state="x"), update(w, w.my_build, w.mine, block_devices=["x"]),
        update(w, w.my_build, w.mine, host="h1"), update(w, w.my_build, w.mine, personality=["x"]),
        step("instance_update", instance_uuid=w.theirs, updates={"power_state": 4}, action_id=w.their_stop,
             owner=w.owner("h1"), expected_task_states=[None]),
        step("instance_update", instance_uuid=w.theirs, updates={}, action_id=w.their_stop, owner=w.owner("h1"),
             expected_task_states=[None], arguments={"verb": "delete"}),
        step("instance_update", instance_uuid=w.mine, updates={}, action_id=w.my_stop, owner=w.owner("h2"),
             expected_task_states=[None], arguments={"verb": "delete"})],
    "block_device_update": lambda w: [
        step("block_device_update", instance_uuid=server, device_id="d", values=values, action_id=action, owner=w.owner(owner))
        for server, action, owner, values in ((w.theirs, w.my_stop, "h2", {}), (w.theirs, w.their_stop, "h1", {}),
                                              (w.mine, w.my_stop, "h2", None), (w.mine, w.my_stop, "h2", {"uuid": "x"}),
                                              (w.mine, w.my_stop, "h2", {"volume_id": "the victim's"}))],
    "nic_update": lambda w: [
        step("nic_update", instance_uuid=server, port_id="p", nic=nic, action_id=action, owner=w.owner(owner))
        for server, action, owner, nic in ((w.theirs, w.my_nic, "h2", NIC), (w.theirs, w.their_stop, "h1", NIC),
                                           (w.mine, w.my_stop, "h2", NIC), (w.mine, w.my_nic, "h2", {"id": "p"}))],
    "migration_update": lambda w: [
        step("migration_update", migration_id=w.move, values={"status": "error"}, action_id=action, owner=w.owner(owner))
        for action, owner in ((w.my_stop, "h2"), (w.their_stop, "h1"))],
    "hand_over": lambda w: [
        step("hand_over", action_id=action, owner=w.owner(owner), host=host, updates=updates, arguments=arguments, events=[],
             step=at)
        for action, owner, host, updates, arguments, at in (
            (w.their_stop, "h1", "h2", {}, {}, None), (w.my_stop, "h2", "h1", {}, {}, None),
            (w.my_stop, "h2", None, {}, {"verb": "delete", "migration_id": w.move}, None),
            (w.my_stop, "h2", None, {"project_id": "x"}, {}, None),
            # a step of another verb, or one that the server tells: the move would stand where it does not
            (w.my_stop, "h2", None, {}, {}, "undo"), (w.my_stop, "h2", None, {}, {"undo": "x"}, None),
            *((w.hold("h2", w.mine, "resize", migration_id=w.move), "h2", "h2", {}, *said)
              for said in (({}, "resize_finish"), ({"step": "resize_finish"}, None), ({}, "settle"))))],
    "release_action": lambda w: [step("release_action", action_id=w.their_stop, owner=w.owner("h1"))],
    "finish_action": lambda w: [
        finish(w, w.their_stop, "h1"), finish(w, w.their_stop, "h2"), finish(w, w.my_stop, "h2", {"project_id": "x"}),
        finish(w, w.my_stop, "h2", {"host": "h1"}), finish(w, w.my_stop, "h2", {"user_id": "x"}, error="no"),
        finish(w, w.my_nic, "h2", {"nic": {"id": "p", "values": None}, "locked": True})],
    "build_failed": lambda w: [
        step("build_failed", action_id=action, owner=w.owner(owner), reason="", details="", events=[], reschedule=False)
        for action, owner in ((w.their_stop, "h1"), (w.their_stop, "h2"), (w.my_stop, "h2"))],
}
# what the honest host does for its own server, in this order
HONEST = {
    "ping": lambda w: ("ping", {}),
    "cloud": lambda w: ("cloud", {}),
    "instance_by_address": ATTACKS["instance_by_address"], "instance_metadata": ATTACKS["instance_metadata"],
    "ask_other_host": lambda w: ("ask_other_host", {
        "action_id": w.hold("h1", w.theirs, "live_migrate", migration_id=w.move_to("h2")), "owner": w.owner("h1"),
        "question": "waits_for_rest"}),
    "get_instance": ATTACKS["get_instance"], "set_server_password": ATTACKS["set_server_password"],
    "heartbeat": lambda w: report("h1", w.owner("h1")),
    "sync_power_states": lambda w: ("sync_power_states", {"host": "h1", "states": {w.theirs: 1, w.gone: 1}}),
    "power_state_changed": ATTACKS["power_state_changed"], "not_wanted": ATTACKS["not_wanted"],
    "settled_here": ATTACKS["settled_here"], "must_be_off": ATTACKS["must_be_off"],
    "network_info_changed": ATTACKS["network_info_changed"], "share_is_used": ATTACKS["share_is_used"],
    "list_networks": lambda w: ("list_networks", {"project_id": None}),
    "list_host_ports": ATTACKS["list_host_ports"], "list_server_ports": ATTACKS["list_server_ports"],
    "rules_for": ATTACKS["rules_for"], "release_port": lambda w: (
        "release_port", {"instance_uuid": w.theirs, "port_id": None, "key": "no such port"}),
    "move_ports": lambda w: ("move_ports", {"instance_uuid": w.theirs, "host": "h3"}),
    "allocate_ports": lambda w: ("allocate_ports", {"instance_uuid": w.theirs, "project_id": "victims-project", "host": "h1",
                                                    "requests": [{"network_id": w.network}]}),
    "release_ports": ATTACKS["release_ports"],
    "claim_action": lambda w: step("claim_action", action_id=w.wait_for("h1", w.theirs, "attach_interface"), host="h1",
                                   owner=w.owner("h1"), task_state=None),
    "instance_update": lambda w: step("instance_update", instance_uuid=w.theirs, updates={"power_state": 4},
                                      action_id=w.their_stop, owner=w.owner("h1"), expected_task_states=[None]),
    "block_device_update": lambda w: step("block_device_update", instance_uuid=w.theirs, device_id="d", values={},
                                          action_id=w.their_stop, owner=w.owner("h1")),
    "nic_update": lambda w: step("nic_update", instance_uuid=w.theirs, port_id="p", nic=NIC, owner=w.owner("h1"),
                                 action_id=w.hold("h1", w.theirs, "attach_interface")),
    "migration_update": lambda w: step(
        "migration_update", migration_id=w.move, values={"status": "running"}, owner=w.owner("h1"),
        action_id=w.hold("h1", w.theirs, "live_migrate", migration_id=w.move)),
    "hand_over": lambda w: step(
        "hand_over", owner=w.owner("h1"), host="h3", updates={}, arguments={}, step="finish", events=[EVENT],
        action_id=w.hold("h1", w.theirs, "live_migrate", migration_id=w.move)),
    "release_action": lambda w: step("release_action", action_id=w.hold("h1", w.theirs, "stop"), owner=w.owner("h1")),
    "finish_action": lambda w: finish(w, w.their_stop, "h1", events=[EVENT]),
    "build_failed": lambda w: step("build_failed", action_id=w.hold("h1", w.theirs, "build", alternates=[]),
                                   owner=w.owner("h1"), reason="", details="", events=[EVENT], reschedule=False),
    "host_started": lambda w: ("host_started", {"host": "h1", "owner": "h1:2:0123456789ab", "guests": [w.theirs]}),
}


@pytest.fixture
def world(make_cloud):
    return World(make_cloud)


def public_methods(manager):
    """What the bus may call of the conductor."""
    real = [getattr(door, "_endpoint", door) for door in manager.endpoints]
    return {name for endpoint in real for name in dir(endpoint)
            if inspect.ismethod(getattr(endpoint, name)) and _Exposed().is_allowed(endpoint, name)}


def refused_or_empty(client, method, arguments):
    """The answer of the conductor, None when it refuses."""
    try:
        answer = client.call(ADMIN, method, timeout=10, **arguments)
    except (exception.HostNotAllowed, exception.LeaseLost):
        return None
    if method == "steps":
        [said] = answer
        assert said.get("error", [None])[0] in ("HostNotAllowed", "LeaseLost") or said == {"result": None}, said
    return answer


def test_every_method_is_in_the_tables(world):
    assert public_methods(world.cloud.conductor) == set(RULES)
    assert set(ATTACKS) == set(RULES) | set(STEPS)
    control_only = {name for name, rule in RULES.items() if not rule.by_hosts}
    assert set(HONEST) == set(ATTACKS) - control_only - {"steps"}


@pytest.mark.parametrize("host", ["h2", None])
def test_what_can_be_called_by_accident_is_refused(world, host):
    """Attributes of the manager that happen to be callable."""
    for name in ("conf", "group_notifier"):
        with pytest.raises(exception.HostNotAllowed):
            world.client(host).call(ADMIN, name, timeout=10)


def test_a_hostile_host_is_given_nothing_and_changes_nothing(world):
    attacker, found = world.client("h2"), []
    for name, attacks in ATTACKS.items():
        for method, arguments in attacks(world):
            before = world.rows()
            answer = refused_or_empty(attacker, method, arguments)
            changed = [table for table, rows in world.rows().items() if rows != before[table]]
            if changed or world.secrets_in(answer):
                found.append((name, arguments, changed, answer))
    assert not found


def test_the_honest_hosts_same_calls_succeed(world):
    honest, refused = world.client("h1"), []
    for name, calls in HONEST.items():
        made = calls(world)
        for method, arguments in made[:1] if isinstance(made, list) else [made]:
            try:
                answer = honest.call(ADMIN, method, timeout=10, **arguments)
            except exception.NovaLiteError as error:
                refused.append((name, error))
                continue
            if method == "steps" and "error" in answer[0] or name == "claim_action" and not answer[0]["result"]:
                refused.append((name, answer))
    assert not refused


@pytest.mark.parametrize(("at", "host"), [("finish", "h1"), ("settle", "h3"), ("finish", None)])
def test_a_host_gives_a_step_to_the_host_that_does_it_and_to_no_other(world, at, host):
    action = world.hold("h1", world.theirs, "live_migrate", migration_id=world.move)
    told = {"action_id": action, "owner": world.owner("h1"), "host": host, "step": at, "updates": {}, "arguments": {},
            "events": []}
    [answer] = world.client("h1").call(ADMIN, "steps", calls=[["hand_over", told]])
    assert answer["error"][0] == "HostNotAllowed"


def test_a_host_sees_networks_without_names_and_projects(world):
    [network] = world.client("h2").list_networks(ADMIN, None)
    assert network["uuid"] == world.network
    assert (network["name"], network["project_id"]) == ("", None)


def test_events_are_those_of_the_hosts_own_action(world):
    """An event may name what it likes: it is written to the action that its host holds, in that host's name."""
    told = {**EVENT, "action_id": world.their_stop, "host": "h1"}
    answer = world.client("h2").call(ADMIN, "steps", calls=[finish(world, world.my_stop, "h2", events=[told])[1]["calls"][0]])
    assert answer == [{"result": None}]
    assert not [row for row in world.rows()["instance_action_events"] if f"'action_id': {world.their_stop}," in row]
    assert any(f"'action_id': {world.my_stop}," in row and "'host': 'h2'" in row
               for row in world.rows()["instance_action_events"])


def test_a_host_that_had_a_server_once_sees_no_secrets_of_it(world):
    """It may have to remove what is left there."""
    world.cloud.db.write(instances.update, world.mine, {"host": "h1", "user_data": "TOP-SECRET"})
    for action in (world.my_stop, world.my_build, world.my_nic):
        world.client("h2").call(ADMIN, "steps", calls=[finish(world, action, "h2")[1]["calls"][0]])
    world.cloud.run(sa.delete(models.allocations).where(models.allocations.c.instance_uuid == world.mine))
    seen = world.client("h2").get_instance(ADMIN, world.mine)
    assert (seen["uuid"], seen["host"], seen["user_data"]) == (world.mine, "h1", None)


def test_the_old_host_of_a_move_may_ask_whether_it_goes_on(world):
    """It is asked to let the guest go by the new one, whose lease it is; it may change nothing by it."""
    action = world.hold("h1", world.theirs, "live_migrate", migration_id=world.move)
    partner = world.client("h3")
    partner.instance_update(world.theirs, {}, [None], action, world.owner("h1"))
    with pytest.raises(exception.HostNotAllowed):
        partner.instance_update(world.theirs, {"power_state": 4}, [None], action, world.owner("h1"))


def test_where_a_server_goes_says_its_move(world):
    action = world.hold("h1", world.theirs, "live_migrate", migration_id=world.move)
    honest = world.client("h1")
    with pytest.raises(exception.HostNotAllowed, match="h2"):
        honest.instance_update(world.theirs, {"host": "h2"}, [None], action, world.owner("h1"))
    aggregate = world.cloud.db.write(aggregates.create, "a", "zone-of-h3")
    world.cloud.run(sa.insert(aggregates.HOSTS).values(aggregate_id=aggregate["id"], host="h3"))
    told = {"host": "h3", "node": "anything", "availability_zone": "zone-of-vips"}
    honest.instance_update(world.theirs, told, [None], action, world.owner("h1"))
    server = world.cloud.get(world.theirs)
    assert (server.host, server.node, server.availability_zone) == ("h3", None, "zone-of-h3")


def test_the_size_of_a_resized_server_is_that_of_its_move(world):
    action = world.hold("h1", world.theirs, "revertResize", migration_id=world.move)
    big = {**world.cloud.get(world.theirs).flavor.to_primitive(), "vcpus": 1000}
    world.client("h1").hand_over(action, world.owner("h1"), None, {"flavor": big, "vcpus": 1, "memory_mb": 1}, {}, [])
    server = world.cloud.get(world.theirs)
    assert (server.flavor.vcpus, server.vcpus, server.memory_mb) == (1, 1, 1024)
