"""`nova-lite-manage host drain` on fake hosts: who goes live, who goes cold, who stays and why, and how it is stopped."""
import json

import pytest

from nova_lite import exception
from nova_lite.compute.api import ComputeAPI
from nova_lite.conductor.tasks import live_migrate
from nova_lite.db import actions, moves, services
from nova_lite.image import base as image_base
from nova_lite.manage import drain
from nova_lite.network import base as network_base
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.volume import base as volume_base

GPU = Flavor(flavorid="3", name="gpu", vcpus=1, memory_mb=1024, root_gb=10,
             pci_requests=[{"alias": "gpu", "count": 1, "specs": [{"vendor_id": "10de"}]}])
DEVICE = json.dumps({"address": "0000:01:00.0", "vendor_id": "10de", "product_id": "1eb8"})


@pytest.fixture
def cloud(make_cloud):
    """h1 alone, so that what is built is there."""
    return make_cloud("h1", fake__pci_devices=[DEVICE], pci__device_spec=['{"vendor_id": "10de"}'])


def _add(cloud, *hosts):
    """More hosts, which have no devices."""
    cloud.conf.set_override("pci_devices", [], group="fake")
    for host in hosts:
        cloud.add_host(host)


@pytest.fixture
def make_drain(cloud):
    """A drain of h1, and the lines that it writes."""
    neighbours = image_base.load(cloud.conf), network_base.load(cloud.conf, None), volume_base.load(cloud.conf)
    api = ComputeAPI(cloud.conf, cloud.db, cloud.transport, *neighbours)

    def make(host="h1", **options):
        lines = []
        return drain.Drain(cloud.db, api, host, tell=lines.append, **options), lines
    return make


def _active(cloud, count, **values):
    servers = cloud.build(count, **values)
    for server in servers:
        cloud.wait(server, states.ACTIVE)
    return servers


def _stopped(cloud, server):
    cloud.operate(server, "stop")
    cloud.wait(server, states.STOPPED)


def _service(cloud):
    with cloud.db.read() as conn:
        return services.get_by_host(conn, "h1", services.COMPUTE)


def _move(cloud, server):
    with cloud.db.read() as conn:
        return moves.list_all(conn, {"instance_uuid": server})[0]


def _line(lines, server):
    [found] = [line for line in lines if server in line]
    return found


def test_nine_of_ten_go_and_one_is_listed_with_the_reason(cloud, make_drain):
    """Seven run, two are stopped, and the device of the last one is at no other host."""
    servers = _active(cloud, 9)
    [bound] = _active(cloud, 1, flavor=GPU)
    for server in servers[:2]:
        _stopped(cloud, server)
    cloud.set(servers[8], locked=True)
    _add(cloud, "h2", "h3")
    emptying, lines = make_drain(parallel=3)
    assert not emptying.run()
    for number, server in enumerate(servers):
        found, line = cloud.get(server), _line(lines, server)
        cold = number < 2
        assert found.host in ("h2", "h3")
        assert (found.vm_state, found.task_state) == (states.STOPPED if cold else states.ACTIVE, None)
        assert cloud.guests(found.host)[server] == (states.SHUTDOWN if cold else states.RUNNING)
        assert _move(cloud, server).status == ("confirmed" if cold else "completed")
        assert f"moved to {found.host}, {'cold' if cold else 'live'} (" in line
    assert cloud.get(bound).host == "h1"
    assert cloud.guests("h1") == {bound: states.RUNNING}
    assert "stays: live: Migration pre-check error: it has PCI devices" in _line(lines, bound)
    assert "cold: No valid host was found" in _line(lines, bound)
    assert sorted(int(line.partition("/10 ")[0]) for line in lines if "/10 " in line) == list(range(1, 11))
    assert lines[-1] == "h1 is not empty: 1 left. Run this again to go on."


def test_it_is_empty_when_the_last_one_has_gone(cloud, make_drain):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    emptying, lines = make_drain()
    assert emptying.run()
    assert (_service(cloud)["disabled"], _service(cloud)["disabled_reason"]) == (True, drain.REASON)
    assert "h1" not in cloud.claimed()
    assert lines[-1] == "h1 is empty, and stays disabled."
    emptying, lines = make_drain()
    assert emptying.run()
    assert not [line for line in lines if server in line]


def test_an_operators_reason_stays(cloud, make_drain):
    cloud.db.write(lambda conn: services.update(conn, services.get_by_host(conn, "h1", services.COMPUTE)["id"],
                                                {"disabled": True, "disabled_reason": "a new disk"}))
    assert make_drain()[0].run()
    assert _service(cloud)["disabled_reason"] == "a new disk"


def test_a_host_that_nobody_knows_is_an_error(make_drain):
    with pytest.raises(exception.HostBinaryNotFound):
        make_drain("h9")[0].run()


def test_a_host_that_is_down_is_disabled_and_nothing_else(cloud, make_drain):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    cloud.silence("h1")
    emptying, lines = make_drain()
    assert not emptying.run()
    assert _service(cloud)["disabled"]
    assert "does not report" in lines[1]
    with cloud.db.read() as conn:
        assert [a.action for a in actions.list_for_instance(conn, server)] == ["create"]


def test_the_only_host_keeps_what_it_has(cloud, make_drain):
    [server] = _active(cloud, 1)
    emptying, lines = make_drain()
    assert not emptying.run()
    assert "No valid host" in _line(lines, server)
    assert cloud.wait(server, states.ACTIVE).host == "h1"


@pytest.mark.parametrize("vm_state", [states.ERROR, states.RESCUED, states.SUSPENDED])
def test_states_in_which_a_server_cannot_go(cloud, make_drain, vm_state):
    [server] = _active(cloud, 1)
    cloud.set(server, vm_state=vm_state)
    _add(cloud, "h2")
    emptying, lines = make_drain()
    assert not emptying.run()
    assert f"stays: Cannot 'migrate' instance {server} while it is in vm_state {vm_state}" in "".join(lines)
    assert cloud.get(server).host == "h1"


def test_a_paused_server_goes_live(cloud, make_drain):
    [server] = _active(cloud, 1)
    cloud.operate(server, "pause")
    cloud.wait(server, states.PAUSED)
    _add(cloud, "h2")
    assert make_drain()[0].run()
    assert cloud.wait(server, states.PAUSED).host == "h2"


@pytest.mark.parametrize("live_only", [False, True])
def test_who_cannot_go_live_goes_cold_unless_nothing_may_be_shut_down(cloud, make_drain, live_only):
    running, off = _active(cloud, 2)
    _stopped(cloud, off)
    _add(cloud, "h2")
    cloud.fail("check_live_migration")
    emptying, lines = make_drain(live_only=live_only)
    assert emptying.run() is not live_only
    assert cloud.wait(off, states.STOPPED).host == "h2"
    assert cloud.wait(running, states.ACTIVE).host == ("h1" if live_only else "h2")
    assert ("stays: live: " if live_only else "moved to h2, cold, since live: ") in _line(lines, running)
    assert "check_live_migration" in _line(lines, running)


def test_a_copy_that_fails_is_not_followed_by_a_cold_move(cloud, make_drain):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    cloud.fail("live_migration")
    emptying, lines = make_drain()
    assert not emptying.run()
    assert "stays: " in _line(lines, server)
    with cloud.db.read() as conn:
        assert [a.action for a in actions.list_for_instance(conn, server)] == ["live-migration", "create"]


@pytest.mark.parametrize("error", [
    exception.InstanceIsBusy(action="live_migrate", instance_id="x", attr="task_state", state="reboot_pending"),
    exception.ServiceUnavailable(what="The message broker", reason="it restarts")])
def test_what_is_refused_for_now_is_asked_for_again(cloud, make_drain, monkeypatch, error):
    """Somebody was faster with the server, or a neighbour is away: no reason to shut a guest down."""
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    emptying, lines = make_drain()
    errors, live = [error, error], emptying.compute.live_migrate

    def live_migrate(*arguments, **options):
        if errors:
            raise errors.pop()
        live(*arguments, **options)
    monkeypatch.setattr(emptying.compute, "live_migrate", live_migrate)
    assert emptying.run()
    assert "moved to h2, live" in _line(lines, server)
    with cloud.db.read() as conn:
        assert [a.action for a in actions.list_for_instance(conn, server)] == ["live-migration", "create"]


@pytest.mark.parametrize("error", [
    exception.ServiceUnavailable(what="Neutron", reason="it restarts"), RuntimeError("nobody has said no")])
def test_what_a_conductor_cannot_begin_now_is_asked_for_again(cloud, make_drain, monkeypatch, error):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    errors, ask = [error], live_migrate._ask

    def away(*arguments):
        if errors:
            raise errors.pop()
        return ask(*arguments)
    monkeypatch.setattr(live_migrate, "_ask", away)
    emptying, lines = make_drain()
    assert emptying.run()
    assert "moved to h2, live" in _line(lines, server)
    with cloud.db.read() as conn:
        assert [a.action for a in actions.list_for_instance(conn, server)] == ["live-migration", "live-migration", "create"]


def test_what_is_refused_for_now_all_the_time_stays(cloud, make_drain, monkeypatch):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    emptying, lines = make_drain(timeout=0.5)

    def live_migrate(*arguments, **options):
        raise exception.ServiceUnavailable(what="The message broker", reason="it restarts")
    monkeypatch.setattr(emptying.compute, "live_migrate", live_migrate)
    assert not emptying.run()
    assert "not waited for any longer: live: The message broker is unavailable: it restarts" in _line(lines, server)
    assert cloud.guests("h1") == {server: states.RUNNING}


def test_a_guest_that_was_stopped_meanwhile_goes_cold(cloud, make_drain, monkeypatch):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    emptying, lines = make_drain()
    settled = emptying._settled

    def stop_once_it_was_seen(uuid):
        monkeypatch.setattr(emptying, "_settled", settled)
        found = settled(uuid)
        _stopped(cloud, server)
        return found
    monkeypatch.setattr(emptying, "_settled", stop_once_it_was_seen)
    assert emptying.run()
    assert "moved to h2, cold (" in _line(lines, server)


def test_a_resize_that_waits_for_its_user_is_not_confirmed(cloud, make_drain):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    cloud.operate(server, "migrate")
    cloud.wait(server, states.RESIZED)
    emptying, lines = make_drain()
    assert not emptying.run()
    assert "stays: it went to h2, but its files are here until a user confirms or reverts" in _line(lines, server)
    assert _move(cloud, server).status == "finished"


def test_after_a_signal_what_is_under_way_goes_on_and_the_next_run_confirms_it(cloud, make_drain, monkeypatch):
    servers = _active(cloud, 3)
    for server in servers:
        _stopped(cloud, server)
    _add(cloud, "h2")
    held, go_on = cloud.hold(monkeypatch, "receive_guest")
    emptying, lines = make_drain(parallel=1)
    settled = emptying._wait_for

    def wait_for(*arguments):
        assert held.wait(60)
        emptying.stop()
        settled(*arguments)
    monkeypatch.setattr(emptying, "_wait_for", wait_for)
    assert not emptying.run()
    assert lines[1:] == ["Stopped: no move was begun after the signal.",
                         f"{sorted(servers)[0]} goes on by itself: cold migration, which the next run confirms",
                         "h1 is not empty: 3 left. Run this again to go on."]
    go_on.set()
    cloud.wait(sorted(servers)[0], states.RESIZED)
    with cloud.db.read() as conn:
        assert not [a for s in sorted(servers)[1:] for a in actions.list_for_instance(conn, s) if a.verb == "migrate"]
    emptying, lines = make_drain()
    assert emptying.run()
    assert {_move(cloud, server).status for server in servers} == {"confirmed"}
    assert cloud.guests("h1") == {}


def test_a_signal_between_live_and_cold_leaves_nothing_under_way(cloud, make_drain, monkeypatch):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    cloud.fail("check_live_migration")
    emptying, lines = make_drain()
    reason = emptying._reason

    def stop(action):
        emptying.stop()
        return reason(action)
    monkeypatch.setattr(emptying, "_reason", stop)
    assert not emptying.run()
    assert lines[1:] == ["Stopped: no move was begun after the signal.", "h1 is not empty: 1 left. Run this again to go on."]
    with cloud.db.read() as conn:
        assert [a.action for a in actions.list_for_instance(conn, server)] == ["live-migration", "create"]


def test_waits_for_what_is_being_done_with_a_server_and_then_moves_it(cloud, make_drain, monkeypatch):
    [server] = _active(cloud, 1)
    _add(cloud, "h2")
    held, go_on = cloud.hold(monkeypatch, "power_off")
    action_id = cloud.operate(server, "stop")
    assert held.wait(60)
    emptying, lines = make_drain(timeout=0.2)
    assert not emptying.run()
    assert "not done after 0 s, and not waited for any longer: stop" in _line(lines, server)
    go_on.set()
    cloud.wait_action(action_id, objects.DONE)
    assert make_drain()[0].run()
    assert cloud.get(server).host == "h2"


def test_what_a_scheduler_has_just_sent_counts(cloud, make_drain, monkeypatch):
    """Room is held for it, though it has no host yet."""
    [(coming, _)] = cloud.create()
    _add(cloud, "h2")
    found = drain.claims.servers_with_room
    monkeypatch.setattr(drain.claims, "servers_with_room", lambda conn, host: found(conn, host) | {coming})
    emptying, lines = make_drain(timeout=0.2)
    assert not emptying.run()
    assert "not waited for any longer: build" in _line(lines, coming)
