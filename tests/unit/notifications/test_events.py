"""Which events follow from what is done with servers, from the request to the last step on the host."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.db import instances, moves
from nova_lite.notifications import events
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from tests.unit.notifications.conftest import Heard

TRACE = 'Traceback (most recent call last):\n  File "/x/site-packages/a/b.py", line 3, in f\n'


def test_the_life_of_a_server(cloud, heard):
    server = cloud.active()
    for verb, end in (("stop", states.STOPPED), ("start", states.ACTIVE), ("reboot", states.ACTIVE),
                      ("reboot_hard", states.ACTIVE), ("pause", states.PAUSED), ("unpause", states.ACTIVE),
                      ("suspend", states.SUSPENDED), ("resume", states.ACTIVE)):
        cloud.wait_action(cloud.operate(server, verb), objects.DONE)
        cloud.wait(server, end)
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    names = ["create", "power_off", "power_on", "reboot", "reboot", "pause", "unpause", "suspend", "resume"]
    assert heard.of(server) == [f"{name}.{phase}" for name in names for phase in ("start", "end")] + [
        "delete.start", "shutdown.start", "shutdown.end", "delete.end"]
    host = cloud.get(server).host
    assert {e.host for e in heard.all if e.name != "update"} == {host}
    end = heard.all[-1].instance
    assert (end.vm_state, end.task_state) == (states.DELETED, None)
    assert end.deleted_at is not None


def test_every_change_of_state_is_an_update_with_what_was_before(cloud, heard):
    server = cloud.active()
    cloud.wait_for(lambda: len(heard.updates(server)) == 3)     # an update follows its commit; other threads go on
    cloud.wait_action(cloud.operate(server, "stop"), objects.DONE)
    cloud.wait_for(lambda: len(heard.updates(server)) == 5)
    assert heard.updates(server) == [
        (None, None, "building", "scheduling"), ("building", "scheduling", "building", "spawning"),
        ("building", "spawning", "active", None), ("active", None, "active", "powering-off"),
        ("active", "powering-off", "stopped", None)]
    assert {e.context["request_id"] for e in heard.all} == {e.context["request_id"] for e in heard.all[:1]} | {
        heard.all[-1].context["request_id"]}
    assert {(e.context["user_id"], e.context["project_id"]) for e in heard.all} == {("u", "p")}


def test_a_change_that_no_state_follows_from_is_none(cloud, heard):
    server = cloud.active()
    before = len(heard.all)
    cloud.set(server, metadata={"a": "b"})
    assert len(heard.all) == before
    cloud.set(server, display_name="other")
    [renamed] = heard.all[before:]
    assert (renamed.before.display_name, renamed.instance.display_name) == ("s0", "other")


def test_a_transaction_that_fails_tells_nothing(cloud, heard):
    server = cloud.active()
    before = len(heard.all)

    def write(conn):
        instances.update(conn, server, {"vm_state": states.ERROR})
        raise exception.Conflict("no")
    with pytest.raises(exception.Conflict):
        cloud.db.write(write)
    assert len(heard.all) == before


def test_a_guest_that_stopped_by_itself(cloud, heard):
    server = cloud.active()
    host = cloud.hosts[cloud.get(server).host]
    host.host.driver.power_off(cloud.get(server), 0)
    host._sync_power_states()
    cloud.wait(server, states.STOPPED)
    assert heard.updates(server)[-1] == ("active", None, "stopped", None)
    assert heard.of(server) == ["create.start", "create.end"]


def test_a_build_that_fails_on_every_host(cloud, heard):
    cloud.fail("spawn")
    [server] = cloud.build()
    cloud.wait(server, states.ERROR)
    assert heard.of(server) == ["create.start", "create.start", "create.error"]
    error = next(e for e in heard.all if e.phase == events.ERROR)
    assert error.fault.exception == "BuildFailed"
    assert "[fake] fail = spawn" in error.fault.message
    assert (error.fault.module, error.fault.function) == ("nova_lite.virt.fake", "_act")
    assert "Traceback" in error.fault.traceback


def test_no_place_for_a_server(make_cloud, monkeypatch):
    cloud = make_cloud("h1", fake__memory_mb=100, compute__reserved_host_memory_mb=0)
    heard = Heard()
    heard.listen_to(cloud.conductor.db, monkeypatch)
    [server] = cloud.build()
    cloud.wait(server, states.ERROR)
    assert heard.of(server) == ["create.error"]
    [error] = [e for e in heard.all if e.phase == events.ERROR]
    assert (error.fault.exception, error.host) == ("NovaLiteError", None)
    assert "No valid host" in error.fault.message
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    assert heard.of(server)[1:] == ["delete.start", "delete.end"]


def test_an_operation_that_fails(cloud, heard):
    server = cloud.active()
    cloud.fail("reboot")
    cloud.wait_action(cloud.operate(server, "reboot"), objects.ERROR)
    assert heard.of(server) == ["create.start", "create.end", "reboot.start", "reboot.error"]
    assert heard.all[-1].fault.exception == "DriverRefusal"


def test_a_host_that_died(cloud, heard):
    cloud.delay(0.0)
    server = cloud.active()
    host = cloud.get(server).host
    action_id = cloud.begin(server, "stop")
    cloud.claim(action_id, host, "a dead worker")
    cloud.silence(host)
    cloud.expire(action_id)
    cloud.sweep()
    assert heard.of(server) == ["create.start", "create.end", "power_off.start", "power_off.error"]
    assert "stopped reporting" in heard.all[-1].fault.message


def test_services(cloud, heard):
    from nova_lite.db import services

    noted = []
    cloud.db.listener = heard
    heard.tell = lambda journal: noted.extend(journal.services)
    with cloud.db.read() as conn:
        number = services.get_by_host(conn, "h1", services.COMPUTE)["id"]
    cloud.db.write(services.update, number, {"disabled": True, "disabled_reason": "maintenance"})
    cloud.db.write(services.heard_from, "new", services.COMPUTE)
    cloud.db.write(services.heard_from, "new", services.COMPUTE)
    assert [(what, s["host"], bool(s["disabled"])) for what, s in noted] == [("update", "h1", True), ("create", "new", False)]


@pytest.mark.parametrize(("details", "name"), [
    ("", "NovaLiteError"), ("no trace: at all", "NovaLiteError"),
    (f"{TRACE}    g()\nValueError: x: y\n", "ValueError"), (f"{TRACE}a.b.C: said\n  more lines\n", "C")])
def test_what_a_fault_says(details, name):
    server = Instance(uuid="u", project_id="p", user_id="u", display_name="d", flavor=Flavor("1", "f", 1, 1, 1),
                      fault={"message": "m", "details": details, "code": 500})
    fault = events.fault_of(server)
    assert (fault.exception, fault.message) == (name, "m")
    assert fault.module == ("a.b" if "site-packages" in details else "")


def test_volumes_come_and_go(make_volume_cloud, monkeypatch):
    cloud = make_volume_cloud()
    heard = Heard()
    heard.listen_to(cloud.conductor.db, monkeypatch)
    server, volume = cloud.running(), cloud.volume()
    cloud.attach(server, volume)
    cloud.detach(server, volume)
    cloud.wait_for(lambda: "volume_detach.end" in heard.of(server))
    assert heard.of(server) == ["create.start", "create.end", "volume_attach.start", "volume_attach.end",
                                "volume_detach.start", "volume_detach.end"]
    assert {e.volume_id for e in heard.all if e.name.startswith("volume_")} == {volume}
    assert heard.all[-1].instance.block_devices == []


def test_a_volume_that_cannot_be_connected(make_volume_cloud, monkeypatch):
    cloud = make_volume_cloud()
    heard = Heard()
    heard.listen_to(cloud.conductor.db, monkeypatch)
    server, volume = cloud.running(), cloud.volume()
    cloud.drivers["h1"].fail("attach_volume", exception.VirtDriverError(what="attach_volume", reason="no"))
    cloud.attach(server, volume, wait=False)
    cloud.wait_for(lambda: "volume_attach.error" in heard.of(server))
    [error] = [e for e in heard.all if e.phase == events.ERROR]
    assert (error.volume_id, error.host) == (volume, "h1")


def test_a_resize_and_the_users_word(cloud, heard):
    flavor = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=20)
    for word, name in (("confirmResize", "resize_confirm"), ("revertResize", "resize_revert")):
        server = cloud.active()
        cloud.wait_action(cloud.operate(server, "resize", {"flavor": flavor.to_primitive()}), objects.DONE)
        cloud.wait(server, states.RESIZED)
        with cloud.db.read() as conn:
            [move] = moves.list_all(conn, {"instance_uuid": server})
        cloud.wait_action(cloud.operate(server, word, {"migration_id": move.id},
                                        host=move.source_compute if word == "confirmResize" else None), objects.DONE)
        assert heard.of(server)[2:] == [f"{part}.{phase}" for part in ("resize_prep", "resize", "resize_finish", name)
                                        for phase in ("start", "end")]


def _live_migrate(cloud, server, host):
    asked = {"host": host, "block_migration": None, "disk_over_commit": None, "force": False}
    return cloud.operate(server, "live_migrate", asked)


def test_a_live_migration(cloud, heard):
    server = cloud.active()
    here = cloud.get(server).host
    there = next(h for h in cloud.hosts if h != here)
    cloud.wait_action(_live_migrate(cloud, server, there), objects.DONE)
    assert heard.of(server)[2:] == [
        "live_migration_pre.start", "live_migration_pre.end", "live_migration_post.start", "live_migration_post.end",
        "live_migration_post_dest.start", "live_migration_post_dest.end"]
    assert [e.host for e in heard.all if e.name == "live_migration_post_dest"] == [there, there]


def test_a_live_migration_that_fails(cloud, heard):
    server = cloud.active()
    cloud.fail("live_migration")
    cloud.wait_action(_live_migrate(cloud, server, None), objects.ERROR)
    assert heard.of(server)[2:] == ["live_migration_pre.start", "live_migration_pre.end", "live_migration_rollback.start",
                                    "live_migration_rollback.end"]


def test_lock_and_unlock(cloud, heard):
    server = cloud.active()
    for values in ({"locked": True, "locked_reason": "mine"}, {"locked_reason": "still"}, {"locked": False}):
        cloud.set(server, **values)
    assert heard.of(server)[2:] == ["lock", "unlock"]


def test_an_image_of_a_server(cloud, heard):
    server = cloud.active()
    cloud.wait_action(cloud.operate(server, "createImage", {"image_id": "i1"}), objects.ERROR)      # there is no such image
    assert heard.of(server)[2:] == ["snapshot.start", "snapshot.error"]
    assert [e.image_id for e in heard.all if e.name == "snapshot"] == ["i1", "i1"]
