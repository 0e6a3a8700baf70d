"""Ports that came to be behind everybody's back are given back, whoever they were for."""
import datetime
import time
import uuid

import pytest
import sqlalchemy as sa

from nova_lite import exception, units
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import models
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.network import NetworkRequest
from nova_lite.volume import base as volume_base
from nova_lite.volume import release
from tests.support.fake_neutron import CREDENTIALS, FakeNeutron, Refused


@pytest.fixture
def neutron():
    with FakeNeutron() as fake:
        fake.new_port_status = "ACTIVE"
        yield fake


@pytest.fixture
def cloud(make_cloud, neutron):
    return make_cloud("h1", config=CREDENTIALS.format(url=neutron.url), network__driver="neutron", service_user__retries=0,
                      service_user__timeout=10, network__vif_plugging_timeout=0)


@pytest.fixture
def network(neutron):
    return neutron.add_network()


def _request(network, **values):
    return [NetworkRequest(network, network_name="private", mtu=1450, **values).to_primitive()]


def _deleted(cloud, network, **values):
    server = cloud.active(network_request=_request(network, **values))
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    return server


def _ago(cloud, server, seconds):
    """The server came to its end so long ago."""
    then = units.utcnow() - datetime.timedelta(seconds=seconds)
    column = "deleted_at" if cloud.get(server).deleted else "updated_at"
    cloud.run(sa.update(models.instances).where(models.instances.c.uuid == server).values({column: then}))


def test_a_port_that_came_after_the_delete(cloud, neutron, network):
    server, living = _deleted(cloud, network), cloud.active(network_request=_request(network))
    leaked, foreign = neutron.add_port(network, device_id=server), neutron.add_port(network, "other", device_id=server)
    cloud.conductor.leaked_resources.run()
    assert leaked in neutron.ports           # whoever deleted it may still be at it
    _ago(cloud, server, 55)
    _ago(cloud, living, 55)
    cloud.conductor.leaked_resources.run()
    assert leaked not in neutron.ports
    assert foreign in neutron.ports         # anybody may write a uuid into a port of theirs
    assert len(neutron.of(living)) == 1


def test_it_is_looked_for_three_times_and_then_no_more(cloud, neutron, network):
    server = _deleted(cloud, network)
    neutron.calls.clear()
    for seconds, calls in ((5, 0), (55, 1), (60, 1), (140, 1), (155, 2), (300, 2), (605, 3), (615, 3), (1000, 3)):
        _ago(cloud, server, seconds)
        cloud.conductor.leaked_resources.run()
        assert len(neutron.calls) == calls, seconds
    late = neutron.add_port(network, device_id=server)
    cloud.conductor.leaked_resources.run()
    assert late in neutron.ports


def test_many_servers_are_one_question(cloud, neutron, network):
    servers = [_deleted(cloud, network) for _ in range(5)]
    leaked = [neutron.add_port(network, device_id=s) for s in servers[:2]]
    for server in servers:
        _ago(cloud, server, 55)
    neutron.calls.clear()
    cloud.conductor.leaked_resources.run()
    assert not set(leaked) & set(neutron.ports)
    assert sorted(neutron.calls) == ["DELETE ports"] * 2 + ["GET ports"] * 3


def test_a_build_that_failed_keeps_nothing(cloud, neutron, network):
    def no_answer(method, what):
        if method == "POST":
            raise Refused(500, "", "boom")
    neutron.before = no_answer
    [server] = cloud.build(network_request=_request(network))
    assert "Neutron is unavailable" in cloud.wait(server, states.ERROR).fault["message"]
    neutron.before = lambda method, what: None
    late = neutron.add_port(network, device_id=server)
    _ago(cloud, server, 55)
    cloud.conductor.leaked_resources.run()
    assert late not in neutron.ports


def test_a_server_that_ran_keeps_its_ports_in_error(cloud, neutron, network):
    server = cloud.active(network_request=_request(network))
    cloud.set(server, vm_state=states.ERROR)
    _ago(cloud, server, 55)
    cloud.conductor.leaked_resources.run()
    assert len(neutron.of(server)) == 1


def test_neutron_down_is_no_look(cloud, neutron, network):
    server = _deleted(cloud, network)
    leaked = neutron.add_port(network, device_id=server)
    _ago(cloud, server, 55)

    def boom(method, what):
        raise Refused(500, "", "boom")
    neutron.before = boom
    cloud.conductor.leaked_resources.run()
    neutron.before = lambda method, what: None
    cloud.conductor.leaked_resources.run()
    assert leaked not in neutron.ports


def test_a_port_of_the_users_is_unbound_not_deleted(cloud, neutron, network):
    port = neutron.add_port(network)
    request = [NetworkRequest(port_id=port).to_primitive()]
    server = cloud.active(network_request=request)
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    neutron.ports[port]["device_id"] = server
    _ago(cloud, server, 55)
    cloud.conductor.leaked_resources.run()
    assert neutron.ports[port]["device_id"] == ""


def test_a_server_that_is_deleted_without_its_host_leaves_no_port(cloud, neutron, network):
    mine = neutron.add_port(network)
    server = cloud.active(network_request=[*_request(network), NetworkRequest(port_id=mine).to_primitive()])
    cloud.set(server, host=None)        # as the sweeper leaves it when the host is dead
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    _until(lambda: list(neutron.ports) == [mine])
    assert neutron.ports[mine]["device_id"] == ""


def test_a_network_that_is_down_keeps_no_server_from_going(cloud, neutron, network):
    server = cloud.active(network_request=_request(network))
    cloud.set(server, host=None)
    neutron.before = _break_down
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    neutron.before = lambda method, what: None
    _ago(cloud, server, 55)
    _until(lambda: cloud.conductor.leaked_resources.run() or not neutron.ports)


def test_one_port_that_cannot_go_does_not_keep_those_of_others(cloud, neutron, network):
    servers = [_deleted(cloud, network) for _ in range(2)]
    ports = [neutron.add_port(network, device_id=server) for server in servers]
    for server in servers:
        _ago(cloud, server, 55)
    stuck = iter([True])

    def refuse(method, what):
        if method == "DELETE" and next(stuck, False):
            raise Refused(409, "PortInUse", "a trunk uses it")
    neutron.before = refuse
    cloud.conductor.leaked_resources.run()
    assert len(neutron.ports.keys() & set(ports)) == 1


def _break_down(method, what):
    raise Refused(500, "Oops", "out of order")


def _until(check):
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# volumes -----------------------------------------------------------------------------------------------------------
OWNER = RequestContext(user_id="u", project_id="p", overwrite=False)


def _with_volume(cloud, volumes, **values):
    """A server with a volume, which goes with it; (server, volume id)."""
    volume = volumes.create(OWNER, 1).id
    cloud.wait_for(lambda: volumes.get(OWNER, volume).status == "available")
    device = BlockDevice(str(uuid.uuid4()), "volume", source_id=volume, volume_id=volume, size=1, **values)
    server = cloud.active(network_request="none", block_devices=[device])
    assert volumes.get(OWNER, volume).status == "in-use"
    return server, volume


@pytest.fixture
def volumes(cloud):
    return volume_base.load(cloud.conf)


def test_an_attachment_that_came_after_the_delete(cloud, volumes):
    server, volume = _with_volume(cloud, volumes)
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    volumes.reserve(admin_context(), volume, server)
    cloud.conductor.leaked_resources.run()
    assert volumes.attachments(admin_context(), server)
    _ago(cloud, server, 55)
    cloud.conductor.leaked_resources.run()
    assert not volumes.attachments(admin_context(), server)
    assert volumes.get(OWNER, volume).status == "available"


@pytest.mark.parametrize("error", [exception.InvalidVolume(reason="it is migrating"),
                                   exception.Forbidden()])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_one_attachment_that_cannot_go_does_not_keep_those_of_others(cloud, volumes, monkeypatch, error, is_deleted):
    """Neither those of servers that were deleted, nor those of builds that failed."""
    servers = [_with_volume(cloud, volumes)[0] for _ in range(2)]
    for server in servers:
        if is_deleted:
            cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
            volumes.reserve(admin_context(), cloud.get(server).volumes[0].volume_id, server)
        else:
            cloud.set(server, vm_state=states.ERROR, launched_at=None)
        _ago(cloud, server, 55)
    real, stuck = cloud.conductor.cleanup._volume.release, iter([True])

    def refuse(context, attachment_id):
        if next(stuck, False):
            raise error
        real(context, attachment_id)
    monkeypatch.setattr(cloud.conductor.cleanup._volume, "release", refuse)
    cloud.conductor.leaked_resources.run()
    assert len([server for server in servers if volumes.attachments(admin_context(), server)]) == 1


def test_a_volume_service_that_is_away_is_no_look(cloud, volumes, monkeypatch):
    server, _volume = _with_volume(cloud, volumes)
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    volumes.reserve(admin_context(), cloud.get(server).volumes[0].volume_id, server)
    _ago(cloud, server, 55)

    def is_away(context, attachment_id):
        raise exception.ServiceUnavailable(what="Cinder", reason="it does not answer")
    with monkeypatch.context() as patch:
        patch.setattr(cloud.conductor.cleanup._volume, "release", is_away)
        cloud.conductor.leaked_resources.run()
    cloud.conductor.leaked_resources.run()
    assert not volumes.attachments(admin_context(), server)


def test_a_volume_that_could_not_go_with_its_server_goes_later(cloud, volumes):
    server, volume = _with_volume(cloud, volumes, delete_on_termination=True)
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE)
    with pytest.raises(exception.VolumeNotFound):
        volumes.get(OWNER, volume)
    device = cloud.get(server).block_devices[0]
    late = volumes.create(OWNER, 1, metadata=release.metadata_of(server, device)).id
    # as the request left it whose answer was lost
    unknown = [{**device.to_primitive(), "volume_id": None, "source_type": "blank"}]
    cloud.run(sa.update(models.instances).where(models.instances.c.uuid == server).values(block_devices=unknown))
    _ago(cloud, server, 55)
    cloud.conductor.leaked_resources.run()
    with pytest.raises(exception.VolumeNotFound):
        volumes.get(OWNER, late)


def test_a_volume_that_stayed_is_its_users(cloud, volumes):
    server, volume = _with_volume(cloud, volumes, delete_on_termination=True)
    snapshot = volumes.create_snapshot(OWNER, volume, force=True).id
    cloud.wait_action(cloud.operate(server, "delete"), objects.DONE, 15)
    assert volumes.get(OWNER, volume).status == "available"
    volumes.delete_snapshot(OWNER, snapshot)
    _ago(cloud, server, 55)
    cloud.conductor.leaked_resources.run()
    assert volumes.get(OWNER, volume).status == "available"


def test_a_server_that_lives_keeps_its_volume(cloud, volumes):
    server, volume = _with_volume(cloud, volumes, delete_on_termination=True)
    cloud.set(server, vm_state=states.ERROR)
    _ago(cloud, server, 55)
    cloud.conductor.leaked_resources.run()
    assert volumes.get(OWNER, volume).status == "in-use"
