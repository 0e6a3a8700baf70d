"""What the hosts of a move ask each other by way of the conductor."""
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_lite import exception
from nova_lite.compute.queries import Queries
from nova_lite.db import moves
from nova_lite.rpc import compute as rpcapi
from tests.security.world import World


@pytest.fixture
def world(make_cloud):
    return World(make_cloud)


def hold(world, verb, dest="h2", host="h1"):
    return world.hold(host, world.theirs, verb, migration_id=world.move_to(dest))


def test_who_may_ask_what(world):
    """By the source, by the destination, or by either, each in its own kind of move."""
    source, dest = world.client("h1"), world.client("h2")
    live, cold = hold(world, "live_migrate"), hold(world, "resize", host="h2")
    assert source.ask_other_host(live, world.owner("h1"), "waits_for_rest") is False
    assert dest.ask_other_host(cold, world.owner("h2"), "arrived") is None
    assert source.ask_other_host(hold(world, "confirmResize"), world.owner("h1"), "holds") == {"guest": False, "aside": False}
    assert dest.ask_other_host(hold(world, "revertResize", host="h2"), world.owner("h2"), "holds")["guest"] is True
    for client, host, action, question in ((source, "h1", live, "offer_for_live_migration"), (source, "h1", live, "leave"),
                                           (dest, "h2", cold, "holds"), (dest, "h2", cold, "waits_for_rest"),
                                           (source, "h1", live, "get_console_output"), (dest, "h1", live, "waits_for_rest")):
        with pytest.raises(exception.HostNotAllowed):
            client.ask_other_host(action, world.owner(host), question)
    with pytest.raises(exception.LeaseLost):
        source.ask_other_host(live, world.owner("h2"), "waits_for_rest")


def test_the_plan_and_the_record_are_the_databases(world, monkeypatch):
    asked = []
    action = hold(world, "live_migrate", host="h2")
    plan = {"host": "h2", "block": True}
    world.cloud.db.write(moves.update, world.cloud.action(action).arguments["migration_id"], {"facts": {"plan": plan}})
    monkeypatch.setattr(Queries, "offer_for_live_migration",
                        lambda self, context, instance_uuid, plan: asked.append((self.host.name, instance_uuid, plan["block"])))
    assert world.client("h2").ask_other_host(action, world.owner("h2"), "offer_for_live_migration") is None
    assert asked == [("h1", world.theirs, True)]


def test_a_host_that_does_not_answer_is_silent(world, monkeypatch):
    monkeypatch.setattr(rpcapi, "LEAVE_TIMEOUT", 0.5)
    with pytest.raises(exception.HostSilent, match="waits_for_rest"):
        world.client("h1").ask_other_host(hold(world, "live_migrate", "h3"), world.owner("h1"), "waits_for_rest")


def test_a_host_that_comes_back_is_asked_again(world, monkeypatch, caplog):
    monkeypatch.setattr(rpcapi, "LEAVE_TIMEOUT", 0.5)
    action = hold(world, "live_migrate", "h3")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(world.client("h1").ask_other_host, action, world.owner("h1"), "waits_for_rest", 60.0)
        world.cloud.wait_for(lambda: "h3 does not answer" in caplog.text)
        world.cloud.add_host("h3")
        assert asked.result(60) is False


def test_few_threads_wait_for_hosts_and_the_rest_ask_again(world, monkeypatch):
    world.cloud.conf.set_override("executor_thread_pool_size", 4)      # so one
    under_way, go_on, most, lock = [], threading.Event(), [], threading.Lock()

    def wait(*_):
        with lock:
            under_way.append(1)
            most.append(len(under_way))
        assert go_on.wait(60)
        with lock:
            under_way.pop()
        return True
    monkeypatch.setattr(world.cloud.conductor.compute, "waits_for_rest", wait)
    action = hold(world, "live_migrate")
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(world.client("h1").ask_other_host, action, world.owner("h1"), "waits_for_rest") for _ in range(3)]
        world.cloud.wait_for(lambda: most)
        world.client("h1").ping(10)
        go_on.set()
        assert [one.result(60) for one in asked] == [True] * 3
    assert max(most) == 1
