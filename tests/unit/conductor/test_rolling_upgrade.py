"""Services of the release before 0014, which know verb and step as arguments only, work beside those of this one."""
import pytest

from nova_lite.context import admin_context
from nova_lite.db import moves
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor

BIGGER = Flavor(flavorid="2", name="bigger", vcpus=2, memory_mb=2048, root_gb=20).to_primitive()


def _older_host(conductor, monkeypatch):
    """It reads the arguments, and tells by them where the other host goes on: of a cold move by the reason, of a revert by a
    word of its own."""
    claim, hand_over = conductor.claim_actions, conductor.hand_over

    def claim_actions(*asked):
        answers = claim(*asked)
        for answer in answers:
            if answer is not None:
                answer["action"] = {name: value for name, value in answer["action"].items() if name not in ("verb", "step")}
        return answers

    def hand_over_by_arguments(action_id, owner, host, updates, arguments, events, step):
        told = {} if "undo" in arguments else {"at_source": True} if step == "return" else {"step": step}
        hand_over(action_id, owner, host, updates, {**arguments, **told}, events)
    monkeypatch.setattr(conductor, "claim_actions", claim_actions)
    monkeypatch.setattr(conductor, "hand_over", hand_over_by_arguments)


@pytest.fixture(params=["hosts", "conductors"])
def older(cloud, monkeypatch, request):
    """Conductors of the older release write the arguments and neither read nor write the columns: as if these were empty."""
    if request.param == "hosts":
        for manager in cloud.hosts.values():
            _older_host(manager.host.conductor, monkeypatch)
    else:
        for event in ("INSERT", "UPDATE"):
            cloud.db.write(lambda conn, event=event: conn.exec_driver_sql(
                f"CREATE TRIGGER older_{event} AFTER {event} ON instance_actions "
                "WHEN NEW.verb IS NOT NULL OR NEW.step IS NOT NULL "
                "BEGIN UPDATE instance_actions SET verb = NULL, step = NULL WHERE id = NEW.id; END"))
    return cloud


def _resized(cloud):
    server = cloud.active()
    source = cloud.get(server).host
    cloud.operate(server, "resize", {"flavor": BIGGER})
    assert cloud.wait(server, states.RESIZED).host != source
    return server, source


def test_a_resize_is_reverted(older):
    server, source = _resized(older)
    with older.db.read() as conn:
        [move] = moves.list_all(conn, {"instance_uuid": server})
    older.wait_action(older.operate(server, "revertResize", {"migration_id": move.id}), objects.DONE)
    assert older.wait(server, states.ACTIVE).host == source
    assert {host: older.guests(host) for host in older.hosts} == {
        host: {server: states.RUNNING} if host == source else {} for host in older.hosts}


def test_a_resize_that_fails_is_undone(older):
    server = older.active()
    source = older.get(server).host
    older.fail(f"finish_move@{'h2' if source == 'h1' else 'h1'}")
    action_id = older.operate(server, "resize", {"flavor": BIGGER})
    older.wait_action(action_id, objects.ERROR)
    found = older.wait(server, states.ACTIVE)
    assert found.host == source
    assert "finish_move" in found.fault["message"]
    assert older.guests(source) == {server: states.RUNNING}


@pytest.mark.parametrize("fails", [False, True])
def test_a_live_migration_comes_to_its_end(older, fails):
    server = older.active()
    source = older.get(server).host
    if fails:
        older.fail(f"live_migration@{source}")
    action_id = older.begin(server, "live_migrate")
    older.rpc.run_action(admin_context(), [action_id])
    older.wait_action(action_id, objects.ERROR if fails else objects.DONE)
    assert (older.get(server).host == source) is fails
    assert older.guests(older.get(server).host) == {server: states.RUNNING}
