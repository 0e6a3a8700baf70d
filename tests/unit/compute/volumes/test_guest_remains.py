"""The guest of something that failed cannot be removed from its host: no other host is given the server, with the volumes that
this guest may write to."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.db import actions
from nova_lite.objects import action as objects
from nova_lite.objects import states
from tests.unit.compute.volumes.volume_cloud import existing, made_of

NO_LIBVIRT = exception.DriverRefusal(what="libvirt", reason="it does not answer")


@pytest.fixture
def cloud(make_volume_cloud, tmp_path):
    return make_volume_cloud("h1", "h2", fake__state_file=str(tmp_path / "guests"))


def _fail(cloud, host, method="destroy"):
    """From its first instruction on, all goes wrong with a guest of this host; how it goes on before nobody knows."""
    cloud.host_volumes[host].fail("complete", times=99)
    cloud.drivers[host].fail(method, NO_LIBVIRT, times=99)


def _heal(cloud, host):
    cloud.host_volumes[host].heal()
    cloud.drivers[host].heal()


def _attachments(cloud):
    return sorted(a["id"] for a in cloud.attachments())


def _again(cloud, host):
    """The host reports, and takes up what waits for it."""
    driver = cloud.drivers[host]
    driver.calls.clear()
    cloud.report(host)
    cloud.wait_for(lambda: "spawn" in driver.calls and not cloud.hosts[host].leases.in_flight())


def _reasons(cloud, action_id):
    with cloud.db.read() as conn:
        return [e["details"] for e in actions.events_of(conn, action_id) if "could not be removed" in str(e["details"])]


def _other(cloud, host):
    [other] = {"h1", "h2"} - {host}
    return other


@pytest.fixture
def half_built(cloud):
    """A server whose build has failed on its host, where the guest runs on; the host."""
    for host in ("h1", "h2"):
        _fail(cloud, host)
    server = cloud.boot(made_of("image", cloud.image), existing(cloud.volume()))
    cloud.wait_for(lambda: any("destroy" in driver.calls for driver in cloud.drivers.values()))
    [host] = [name for name, driver in cloud.drivers.items() if "destroy" in driver.calls]
    cloud.wait_for(lambda: not cloud.hosts[host].leases.in_flight())
    _heal(cloud, _other(cloud, host))
    return server, host


def test_a_build_waits_and_goes_on_there(cloud, half_built):
    server, host = half_built
    made, action = _attachments(cloud), cloud.last_action(server)["row"]
    _again(cloud, host)
    cloud.take_over()
    cloud.wait_for(lambda: not cloud.hosts[host].leases.in_flight())
    found = cloud.get(server)
    assert (found.host, found.vm_state, cloud.guests(_other(cloud, host))) == (host, states.BUILDING, {})
    assert _attachments(cloud) == made
    [told] = _reasons(cloud, action.id)
    assert f"failed on compute host {host}" in told
    assert "libvirt failed: it does not answer" in told
    assert cloud.action(action.id).attempts == 0
    _heal(cloud, host)
    cloud.report(host)
    found = cloud.wait(server, states.ACTIVE)
    assert (found.host, cloud.guests(host), cloud.guests(_other(cloud, host))) == (host, {server: states.RUNNING}, {})
    assert sorted(d.attachment_id for d in found.volumes) == _attachments(cloud) == made


def test_a_build_goes_elsewhere_once_its_guest_is_gone(cloud, half_built):
    server, host = half_built
    cloud.drivers[host].heal()
    cloud.report(host)
    found, other = cloud.wait(server, states.ACTIVE), _other(cloud, host)
    assert (found.host, cloud.guests(host), cloud.guests(other)) == (other, {}, {server: states.RUNNING})


@pytest.mark.parametrize("down", [True, False])
def test_a_build_waits_for_a_host_that_dies_then(cloud, half_built, down):
    server, host = half_built
    cloud.silence(host)
    cloud.take_over()
    assert (cloud.get(server).host, cloud.get(server).vm_state) == (host, states.BUILDING)
    if down:
        cloud.force_down(host)
        cloud.take_over()
        assert cloud.wait(server, states.ACTIVE).host == _other(cloud, host)
    else:
        cloud.end_host(host)
        cloud.add_meddled_host(host)
        assert cloud.wait(server, states.ACTIVE).host == host
        assert cloud.guests(_other(cloud, host)) == {}


def test_a_build_that_waits_can_be_deleted(cloud, half_built):
    server, host = half_built
    _heal(cloud, host)
    cloud.delete(server)
    cloud.wait_for(lambda: cloud.guests(host) == {})
    cloud.actions_end(server)
    assert cloud.attachments() == []


@pytest.mark.parametrize("method", ["adopt", "destroy"])
def test_an_evacuation_leaves_nothing_to_the_old_host(cloud, method, monkeypatch):
    server = cloud.running(made_of("image", cloud.image))
    old = cloud.get(server).host
    new = _other(cloud, old)
    cloud.end_host(old)
    cloud.silence(old)
    _fail(cloud, new)
    if method == "adopt":
        live, real = cloud.hosts[new].host.driver.live, cloud.hosts[new].host.driver.live.adopt

        def adopt(instance):
            if cloud.drivers[new].rules and "spawn" in cloud.drivers[new].calls:
                raise NO_LIBVIRT
            real(instance)
        monkeypatch.setattr(live, "adopt", adopt)
        cloud.drivers[new].rules["destroy"] = ["", None, 0]
    action = cloud.operate(server, "evacuate", {"host": None, "force": False, "stopped": False})
    cloud.wait_for(lambda: "spawn" in cloud.drivers[new].calls and not cloud.hosts[new].leases.in_flight())
    made = _attachments(cloud)
    cloud.add_meddled_host(old)
    cloud.sync(old)
    cloud.wait_for(lambda: cloud.guests(old) == {})
    cloud.report(new)
    cloud.wait_for(lambda: not cloud.hosts[new].leases.in_flight())
    assert (cloud.action(action).state, cloud.get(server).host, cloud.guests(new)) == (
        objects.PENDING, old, {server: states.RUNNING})
    assert _attachments(cloud) == made
    assert f"failed on compute host {new}" in _reasons(cloud, action)[0]
    _heal(cloud, new)
    cloud.report(new)
    found = cloud.wait(server, states.ACTIVE)
    assert (found.host, cloud.guests(old), cloud.guests(new)) == (new, {}, {server: states.RUNNING})
    assert [d.attachment_id for d in found.volumes] == _attachments(cloud)


def test_an_unshelve_does_not_put_the_server_back_on_its_shelf(cloud):
    """From there another host could be given it."""
    server = cloud.running(made_of("image", cloud.image))
    cloud.admin.post(f"/servers/{server}/action", {"shelve": None}, 202)
    cloud.wait(server, states.SHELVED_OFFLOADED)
    for host in ("h1", "h2"):
        cloud.drivers[host].calls.clear()
        _fail(cloud, host)
    action = cloud.operate(server, "unshelve")
    cloud.wait_for(lambda: any("destroy" in driver.calls for driver in cloud.drivers.values()))
    host = cloud.get(server).host
    cloud.wait_for(lambda: not cloud.hosts[host].leases.in_flight())
    _again(cloud, host)
    found = cloud.get(server)
    assert (found.host, found.vm_state, found.task_state) == (host, states.SHELVED_OFFLOADED, states.UNSHELVING)
    [told] = _reasons(cloud, action)
    assert f"failed on compute host {host}" in told
    _heal(cloud, host)
    cloud.report(host)
    found = cloud.wait(server, states.ACTIVE)
    assert (found.host, cloud.guests(host), cloud.guests(_other(cloud, host))) == (host, {server: states.RUNNING}, {})
    assert [d.attachment_id for d in found.volumes] == _attachments(cloud)
