"""The key of a server's encrypted disks: one is made at its build, and deleted with it, whoever dies on the way."""
import datetime
import threading
import uuid

import pytest

from nova_lite import exception, units
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import DISKS_KEY
from nova_lite.rpc.conductor import ConductorAPI

from .cloud import Cloud

FLAVOR = Flavor("2", "locked", 1024, 1, 10, extra_specs={"hw:ephemeral_encryption": "true"})


class Backend:
    """A key manager as castellan loads one by its name."""

    keys: dict = {}
    away = False
    made = 0
    lock = threading.Lock()

    def __init__(self, configuration):
        self.configuration = configuration

    def store(self, context, key):
        from castellan.common import exception as errors

        if self.away:
            raise errors.KeyManagerError(reason="it is away")
        with self.lock:
            Backend.made += 1
            key_id = str(uuid.uuid4())
            self.keys[key_id] = key
        return key_id

    def delete(self, context, key_id):
        from castellan.common import exception as errors

        if self.away:
            raise errors.KeyManagerError(reason="it is away")
        if self.keys.pop(key_id, None) is None:
            raise errors.ManagedObjectNotFoundError(uuid=key_id)


@pytest.fixture
def keys(monkeypatch):
    pytest.importorskip("castellan")
    monkeypatch.setattr(Backend, "keys", {})
    monkeypatch.setattr(Backend, "made", 0)
    monkeypatch.setattr(Backend, "away", False)
    return Backend


@pytest.fixture
def cloud(keys, tmp_path):
    made = Cloud(tmp_path, f"[key_manager]\nbackend = {__name__}.Backend\n")
    for host in ("h1", "h2"):
        made.add_host(host)
    yield made
    made.close()


def _key(cloud, server):
    return cloud.get(server).system_metadata.get(DISKS_KEY)


def _gone(cloud, server):
    return cloud.get(server).deleted


def test_each_server_has_its_own_until_it_is_deleted(cloud, keys):
    one, other, plain = cloud.active(flavor=FLAVOR), cloud.active(flavor=FLAVOR), cloud.active()
    assert {_key(cloud, one), _key(cloud, other)} == set(keys.keys)
    assert len(keys.keys) == 2
    assert _key(cloud, plain) is None
    [key] = [key for key_id, key in keys.keys.items() if key_id == _key(cloud, one)]
    assert (len(key.get_encoded()), key.name) == (32, f"disks of server {one}")
    for server in (one, other):
        cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    assert keys.keys == {}


def test_a_build_that_goes_to_another_host_takes_its_key_along(cloud, keys):
    cloud.fail("spawn@h1")
    built = [cloud.active(flavor=FLAVOR) for _ in range(2)]
    assert {cloud.get(server).host for server in built} == {"h2"}
    assert set(keys.keys) == {_key(cloud, server) for server in built}
    assert keys.made == 2


def test_a_build_that_fails_for_good_keeps_it_until_the_delete(cloud, keys):
    cloud.fail("spawn")
    [server] = cloud.build(flavor=FLAVOR)
    assert cloud.wait(server, states.ERROR).host is None
    assert set(keys.keys) == {_key(cloud, server)}
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    assert keys.keys == {}


def test_who_was_killed_after_the_note_is_followed_by_one_that_reads_it(cloud, keys, monkeypatch):
    held, go_on = cloud.hold(monkeypatch, "spawn")
    [server] = cloud.build(flavor=FLAVOR)
    assert held.wait(60)
    dead, key = cloud.get(server).host, _key(cloud, server)
    assert key in keys.keys
    cloud.silence(dead)
    cloud.expire()
    cloud.sweep()
    cloud.wait(server, states.ACTIVE)
    go_on.set()
    assert (_key(cloud, server), set(keys.keys), keys.made) == (key, {key}, 1)


def test_a_key_that_cannot_be_noted_is_deleted(cloud, keys, monkeypatch):
    """The server was deleted while its key was made."""
    real = ConductorAPI.instance_update

    def update(self, uuid, updates, *arguments):
        if "system_metadata" in updates:
            raise exception.UnexpectedTaskState(instance_id=uuid, expected=[], actual=states.DELETING)
        return real(self, uuid, updates, *arguments)

    monkeypatch.setattr(ConductorAPI, "instance_update", update)
    [server] = cloud.build(flavor=FLAVOR)
    cloud.wait_for(lambda: keys.made and not keys.keys)
    assert _key(cloud, server) is None


def test_without_a_key_manager_nothing_is_built_and_nothing_forgotten(cloud, keys):
    keys.away = True
    [server] = cloud.build(flavor=FLAVOR)
    assert "The key manager is unavailable" in cloud.wait(server, states.ERROR).fault["message"]
    assert all(cloud.guests(host) == {} for host in cloud.hosts)
    keys.away = False
    server = cloud.active(flavor=FLAVOR)
    keys.away = True
    cloud.wait_action(cloud.operate(server, "delete"), objects.ERROR)
    found = cloud.get(server)
    assert (found.deleted, found.vm_state, found.task_state) == (0, states.ERROR, None)
    assert "key manager" in found.fault["message"]
    keys.away = False
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    assert keys.keys == {}


@pytest.mark.parametrize("is_away", [False, True])
def test_a_dead_host_does_not_keep_the_key(cloud, keys, is_away):
    server = cloud.active(flavor=FLAVOR)
    host = cloud.get(server).host
    cloud.silence(host)
    action_id = cloud.begin(server, "delete")
    cloud.expire()
    keys.away = is_away
    cloud.sweep()
    if is_away:
        cloud.wait_action(action_id, objects.ERROR)
        assert not _gone(cloud, server)
        keys.away = False
        cloud.set(server, host=None)
        action_id = cloud.operate(server, "delete")
    cloud.wait_action(action_id, objects.DONE)
    assert _gone(cloud, server)
    assert keys.keys == {}


def test_a_soft_deleted_server_of_a_dead_host_goes_when_the_key_manager_is_back(cloud, keys):
    cloud.conf.set_override("reclaim_instance_interval", 3600, group="compute")
    server = cloud.active(flavor=FLAVOR)
    cloud.wait_action(cloud.operate(server, "soft_delete"), objects.DONE)
    cloud.set(server, deleted_at=units.utcnow() - datetime.timedelta(hours=2))
    cloud.silence(cloud.get(server).host)
    cloud.conductor.compute.wake = lambda *arguments: None
    keys.away = True
    cloud.conductor.expiry.run()
    cloud.expire()
    cloud.sweep()
    cloud.wait_for(lambda: cloud.get(server).fault)
    assert (cloud.get(server).vm_state, cloud.get(server).task_state) == (states.SOFT_DELETED, None)
    keys.away = False
    cloud.conductor.expiry.run()
    cloud.expire()
    cloud.sweep()
    cloud.wait_for(lambda: _gone(cloud, server))
    assert keys.keys == {}


def test_the_key_is_deleted_when_nobody_can_read_the_disks_any_more(cloud, keys, monkeypatch):
    server, order = cloud.active(flavor=FLAVOR), []
    driver = cloud.hosts[cloud.get(server).host].host.driver
    destroy, delete = driver.destroy, Backend.delete
    monkeypatch.setattr(driver, "destroy", lambda *a: order.append("disks") or destroy(*a))
    monkeypatch.setattr(Backend, "delete", lambda *a: order.append("key") or delete(*a))
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    assert order == ["disks", "key"]


def test_the_fixed_key_is_everybodys_and_stays(tmp_path):
    cloud = Cloud(tmp_path, key_manager__backend="nova.keymgr.conf_key_mgr.ConfKeyManager", key_manager__fixed_key="00ff")
    try:
        cloud.add_host("h1")
        server = cloud.active(flavor=FLAVOR)
        assert _key(cloud, server) == "00000000-0000-0000-0000-000000000000"
        cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    finally:
        cloud.close()


def test_a_host_that_cannot_is_not_chosen(cloud):
    for manager in cloud.hosts.values():
        inventory = manager.host.driver.inventory

        def without(inventory=inventory):
            found = inventory()
            found.traits = [trait for trait in found.traits if "EPHEMERAL" not in trait]
            return found

        manager.host.driver.inventory = without
        cloud.report(manager.host.name)
    [server] = cloud.build(flavor=FLAVOR)
    assert "HostTraitsFilter left 0" in cloud.wait(server, states.ERROR).fault["message"]
