"""Guests that change by themselves: servers follow them, unless somebody works on the server."""
import dataclasses
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_lite.conductor import power_states
from nova_lite.context import admin_context
from nova_lite.db import moves
from nova_lite.objects import migration, states
from nova_lite.objects.instance import Instance

ADMIN = admin_context()


def guest_of(cloud, server):
    """(driver of its host, the server as drivers know it)"""
    found = cloud.get(server)
    return cloud.hosts[found.host].host.driver, found


@pytest.mark.parametrize(("verbs", "change", "vm_state", "power_state"), [
    ([], lambda d, s: d.power_off(s, 0), states.STOPPED, states.SHUTDOWN),
    ([], lambda d, s: d.pause(s), states.PAUSED, states.POWER_PAUSED),
    (["stop"], lambda d, s: d.power_on(s, []), states.ACTIVE, states.RUNNING),
    (["pause"], lambda d, s: d.unpause(s), states.ACTIVE, states.RUNNING),
    (["pause"], lambda d, s: d.power_off(s, 0), states.STOPPED, states.SHUTDOWN),
    (["suspend"], lambda d, s: d.resume(s, []), states.ACTIVE, states.RUNNING),
    ([], lambda d, s: d.destroy(s, []), states.ACTIVE, states.NOSTATE)])
def test_the_server_follows_its_guest(cloud, verbs, change, vm_state, power_state):
    server = cloud.active()
    for verb in verbs:
        cloud.operate(server, verb)
        cloud.wait_for(lambda: cloud.get(server).task_state is None)
    driver, found = guest_of(cloud, server)
    change(driver, found)
    cloud.sync(found.host)
    cloud.wait_for(lambda: cloud.get(server).power_state == power_state)
    assert (cloud.get(server).vm_state, cloud.get(server).task_state) == (vm_state, None)


def test_what_fits_is_not_written_again(cloud):
    server = cloud.active()
    before = cloud.get(server)
    host = cloud.hosts[before.host]
    cloud.sync(before.host)
    cloud.wait_for(lambda: not host._queues.is_busy(server))
    assert cloud.get(server) == before


@pytest.mark.parametrize("values", [{"task_state": states.POWERING_OFF}, {"vm_state": states.ERROR}])
def test_servers_that_somebody_works_on_or_that_failed_are_left_alone(cloud, values):
    server = cloud.active()
    cloud.set(server, **values)
    driver, found = guest_of(cloud, server)
    driver.power_off(found, 0)
    answer = cloud.rpc.sync_power_states(ADMIN, found.host, driver.power_states())
    assert not any(answer.values())
    assert cloud.get(server).power_state == states.RUNNING


def test_a_report_that_comes_while_an_operation_runs_changes_nothing(cloud):
    server = cloud.active()
    cloud.set(server, task_state=states.REBOOTING)
    cloud.rpc.power_state_changed(ADMIN, server, cloud.get(server).host, states.SHUTDOWN)
    assert (cloud.get(server).vm_state, cloud.get(server).power_state) == (states.ACTIVE, states.RUNNING)
    cloud.set(server, task_state=None)
    cloud.rpc.power_state_changed(ADMIN, server, "another host", states.SHUTDOWN)
    assert (cloud.get(server).vm_state, cloud.get(server).power_state) == (states.ACTIVE, states.RUNNING)


@pytest.mark.parametrize("gone", [{"host": "elsewhere"}, {"host": None}, "deleted"])
def test_the_guest_of_a_server_that_is_not_here_any_more_is_removed(cloud, gone):
    server, other = cloud.build(2)
    for one in (server, other):
        cloud.wait(one, states.ACTIVE)
    host = cloud.get(server).host
    if gone == "deleted":
        action_id = cloud.begin(server, "delete")
        cloud.silence(host)
        cloud.expire(action_id)
        cloud.sweep()
        assert cloud.get(server).deleted
    else:
        cloud.set(server, **gone)
    before = cloud.guests(host)
    cloud.sync(host)
    cloud.wait_for(lambda: cloud.guests(host) == {u: s for u, s in before.items() if u != server})


def test_guests_of_a_host_that_was_renamed_stay(cloud):
    server = cloud.active()
    assert cloud.rpc.host_started(ADMIN, "renamed", "owner", [server])["remove"] == []
    found = cloud.rpc.sync_power_states(ADMIN, "renamed", {server: states.RUNNING})
    assert found["remove"] == []
    assert found["unexplained"] == [{"uuid": server, "host": None}]
    assert cloud.rpc.not_wanted(ADMIN, "renamed", [server]) == []


def _copy_on_another_host(cloud):
    """(server, host): its guest is there, too, as after a move of which an old database knows nothing."""
    server = cloud.active()
    other = next(name for name in cloud.hosts if name != cloud.get(server).host)
    cloud.hosts[other].host.driver.spawn(cloud.get(server), [], None, None)
    return server, other


def test_a_guest_that_nobody_has_moved_stays_and_each_look_tells_of_it(cloud, caplog):
    server, other = _copy_on_another_host(cloud)
    for looks in (1, 2):
        cloud.sync(other)
        cloud.wait_for(lambda: not cloud.hosts[other]._queues.is_busy(server))
        told = [r for r in caplog.records if r.levelname == "ERROR" and "its guest is here" in r.getMessage()]
        assert len(told) == looks
    assert cloud.guests(other) == {server: states.RUNNING}


@pytest.mark.parametrize("status", [migration.ERROR, migration.CONFIRMED, migration.CANCELLED])
@pytest.mark.parametrize("end", ["source_compute", "dest_compute"])
def test_what_any_move_has_left_is_removed(cloud, status, end):
    server, other = _copy_on_another_host(cloud)
    cloud.db.write(moves.create, cloud.get(server), migration.LIVE_MIGRATION, status, **{end: other})
    cloud.sync(other)
    cloud.wait_for(lambda: cloud.guests(other) == {})


@pytest.mark.parametrize(("status", "removed"), [(migration.ACCEPTED, False), (migration.PRE_MIGRATING, True)])
def test_a_look_asks_once_for_evacuations(cloud, status, removed):
    """Before the new host has begun, its guest must only be off."""
    server = cloud.active()
    old = cloud.get(server).host
    cloud.db.write(moves.create, cloud.get(server), migration.EVACUATION, status, source_compute=old, dest_compute="new")
    asked = []
    sa.event.listen(cloud.conductor.db.engine, "before_cursor_execute",
                    lambda *a: asked.append(a[2]) if "migration_type =" in a[2] else None)
    found = cloud.rpc.sync_power_states(ADMIN, old, {server: states.RUNNING})
    assert (found["off"], [i["uuid"] for i in found["remove"]]) == (([], [server]) if removed else ([server], []))
    assert found["look"] == []
    assert len(asked) == 1


@pytest.mark.parametrize("arguments", [{"tried": ["h2"]}, {"ignore_hosts": ["h2"]}])
def test_what_a_build_or_an_evacuation_that_went_elsewhere_has_left_is_removed(make_cloud, arguments):
    cloud = make_cloud("h1")
    server = cloud.active(arguments=arguments)
    cloud.add_host("h2").host.driver.spawn(cloud.get(server), [], None, None)
    cloud.sync("h2")
    cloud.wait_for(lambda: cloud.guests("h2") == {})


def _warnings(caplog, of):
    """What the looks of a host have told of guests of no server, or of servers without guest."""
    return [r.getMessage() for r in caplog.records if r.levelname == "WARNING" and r.name.endswith("recovery")
            and of in r.getMessage()]


def test_guests_of_no_server_are_told_of_when_there_are_others(cloud, caplog):
    server, strange = cloud.get(cloud.active()), [str(uuid.uuid4()) for _ in range(2)]
    driver = cloud.hosts[server.host].host.driver
    told = "guests of no server, which are left alone: "
    for number, all_of_them in ((0, strange[:1]), (1, strange), (1, strange)):
        driver.spawn(dataclasses.replace(server, uuid=strange[number]), [], None, None)
        cloud.sync(server.host)
        assert _warnings(caplog, "no server")[-1] == told + ", ".join(sorted(all_of_them))
    assert len(_warnings(caplog, "no server")) == 2
    assert cloud.guests(server.host).keys() == {server.uuid, *strange}
    for one in strange:
        driver.destroy(dataclasses.replace(server, uuid=one), [])
    for _look in range(2):
        cloud.sync(server.host)
    assert _warnings(caplog, "no server")[2:] == [told + "none any more"]


def test_servers_without_guest_are_told_of_once(cloud, caplog):
    server = cloud.active()
    driver, found = guest_of(cloud, server)
    driver.destroy(found, [])
    cloud.sync(found.host)
    cloud.wait_for(lambda: cloud.get(server).power_state == states.NOSTATE)
    assert [r.levelname for r in caplog.records if "was found in power state pending" in r.getMessage()] == ["WARNING"]
    for _look in range(2):
        cloud.sync(found.host)
    [told] = _warnings(caplog, "whose guests are not there")
    assert server in told


def test_a_daemon_that_starts_tells_of_what_it_finds(make_cloud, tmp_path, caplog):
    cloud = make_cloud("h1", fake__state_file=str(tmp_path / "guests"))
    server, strange = cloud.get(cloud.active()), str(uuid.uuid4())
    cloud.hosts["h1"].host.driver.spawn(dataclasses.replace(server, uuid=strange), [], None, None)
    cloud.end_host("h1")
    cloud.add_host("h1")
    cloud.wait_for(lambda: [strange in told for told in _warnings(caplog, "no server")] == [True])


# what a look, and the start of a host, read and send ----------------------------------------------------------------
@pytest.fixture
def asked(cloud):
    """The statements that read servers, from now on."""
    texts = []
    sa.event.listen(cloud.conductor.db.engine, "before_cursor_execute",
                    lambda *a: texts.append(a[2]) if "FROM instances" in a[2] else None)
    return texts


def _servers(cloud, count):
    """(host, its servers)"""
    made = cloud.build(count)
    for one in made:
        cloud.wait(one, states.ACTIVE)
    host = cloud.get(made[0]).host
    return host, [one for one in made if cloud.get(one).host == host]


def test_a_look_that_finds_nothing_reads_servers_once_and_only_their_states(cloud, asked):
    host, servers = _servers(cloud, 3)
    asked.clear()
    answer = cloud.rpc.sync_power_states(ADMIN, host, dict.fromkeys(servers, states.RUNNING))
    assert not any(answer.values())
    [text] = asked
    assert "flavor" not in text
    assert "block_devices" not in text


def test_the_start_of_a_host_reads_servers_once_and_sends_their_states(cloud, asked):
    host, servers = _servers(cloud, 3)
    asked.clear()
    answer = cloud.rpc.host_started(ADMIN, host, "owner", servers)
    [text] = asked
    assert "block_devices" not in text
    assert answer["remove"] == []
    assert sorted((i["uuid"], i["host"], i["vm_state"], i["task_state"]) for i in answer["instances"]) == sorted(
        (one, host, states.ACTIVE, None) for one in servers)
    for values in answer["instances"]:
        assert not {"user_data", "metadata", "block_devices", "network_info"} & set(values)
        assert Instance.from_primitive(values).host == host         # as a host of the release before reads it


@pytest.mark.parametrize("call", ["look", "start"])
def test_only_servers_whose_guests_must_go_are_read_whole(cloud, asked, call):
    host, servers = _servers(cloud, 4)
    gone = servers[0]
    cloud.set(gone, host="elsewhere", metadata={"its": "user's"})
    asked.clear()
    if call == "look":
        answer = cloud.rpc.sync_power_states(ADMIN, host, dict.fromkeys(servers, states.RUNNING))
    else:
        answer = cloud.rpc.host_started(ADMIN, host, "owner", servers)
    [sent] = answer["remove"]
    assert (sent["uuid"], sent["flavor"]["memory_mb"], sent["metadata"]) == (gone, 1024, {})
    assert len([text for text in asked if "block_devices" in text]) == 1


def test_a_host_learns_the_id_alone_of_a_deleted_server_that_was_never_its_own(cloud):
    server = cloud.active()
    other = next(name for name in cloud.hosts if name != cloud.get(server).host)
    cloud.operate(server, "delete")
    cloud.wait_for(lambda: cloud.get(server).deleted)
    [sent] = cloud.rpc.host_started(ADMIN, other, "owner", [server])["remove"]
    assert (sent["uuid"], sent["id"], sent["project_id"], sent["display_name"]) == (server, cloud.get(server).id, "", "")
    assert (sent["host"], sent["network_info"], sent["block_devices"]) == (None, [], [])


def test_looks_of_many_hosts_cost_a_few_queries(cloud):
    for n in range(5):
        cloud.add_host(f"more-{n}")
    servers = {server: cloud.get(server).host for server in (cloud.active() for _ in range(6))}
    off = next(server for server, host in servers.items() if host == "more-3")
    looks = [power_states.Look(host, {server: states.SHUTDOWN if server == off else states.RUNNING
                                      for server, its in servers.items() if its == host}) for host in cloud.hosts]
    queries = []
    with cloud.db.read() as conn:
        sa.event.listen(conn, "before_cursor_execute", lambda *args: queries.append(args[2]))
        answers = power_states.compare(conn, looks)
    assert len([query for query in queries if query.startswith("SELECT")]) == 2     # no guest is unknown to its host
    assert {look.host: answer["look"] for look, answer in zip(looks, answers, strict=True) if any(answer.values())} == {
        "more-3": [off]}


def test_a_host_that_reports_nonsense_costs_no_other_host_its_answer(cloud):
    server = cloud.active()
    looks = [power_states.Look("h1", {server: states.RUNNING}), power_states.Look("h2", {server: states.RUNNING, 7: "x"})]
    with ThreadPoolExecutor() as pool:
        good, bad = [pool.submit(cloud.conductor.looks.ask, look) for look in looks]
        assert not any(good.result().values())
        with pytest.raises(TypeError):
            bad.result()
