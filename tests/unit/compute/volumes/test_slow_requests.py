"""Requests that wait long for the Volume service keep their actions; those that die in the middle give them up soon."""
import threading

import pytest
import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import actions, models
from nova_lite.objects import action as objects
from nova_lite.objects import states
from tests.unit.compute.volumes.volume_cloud import made_of

LEASE = 3


class Killed(BaseException):
    """The API process, at this line."""


@pytest.fixture
def cloud(make_volume_cloud):
    return make_volume_cloud("h1", conductor__lease_seconds=LEASE)


def waiting(cloud):
    """The actions that requests are preparing: [(id, the end of its lease)]."""
    table = models.instance_actions
    with cloud.db.read() as conn:
        return [tuple(row) for row in conn.execute(sa.select(table.c.id, table.c.lease_until).where(
            table.c.stage == objects.API, table.c.state == objects.PENDING).order_by(table.c.id))]


def slow(cloud, method):
    """``method`` of the Volume service takes so long that the leases of all that waits for it are lengthened twice."""
    real, ends = cloud.api_volumes._real, []

    def wait(_self, *arguments, **named):
        for _ in range(2):
            before = waiting(cloud)
            cloud.wait_for(lambda b=before: len(b) == len(waiting(cloud)) and all(
                new > old for (_, new), (_, old) in zip(waiting(cloud), b, strict=True)))
        ends.append(waiting(cloud))
        cloud.sweep()
        return getattr(real, method)(*arguments, **named)
    cloud.api_volumes._real = type("Slow", (), {"__getattr__": lambda _self, name: getattr(real, name), method: wait})()
    return ends


def test_servers_whose_volumes_take_long_are_built(cloud):
    ends = slow(cloud, "create")
    body = {"server": {"name": "vm", "networks": "none", "flavorRef": "1", "min_count": 2, "max_count": 2,
                       "block_device_mapping_v2": [made_of("image", cloud.image)]}}
    cloud.member.post("/servers", body, 202)
    assert [len(some) for some in ends] == [2, 2]
    for server in cloud.member.get("/servers")["servers"]:
        cloud.wait(server["id"], states.ACTIVE)


def test_an_attach_and_a_detach_that_take_long_come_to_their_end(cloud):
    server, volume = cloud.running(), cloud.volume()
    attach, detach = slow(cloud, "reserve"), slow(cloud, "begin_detaching")
    cloud.attach(server, volume)
    cloud.actions_end(server)
    cloud.detach(server, volume)
    cloud.actions_end(server)
    assert cloud.attachments() == []
    assert [len(some) for some in (*attach, *detach)] == [1, 1]


def _boot(cloud):
    return lambda: cloud.boot(made_of("image", cloud.image))


def _attach(cloud):
    server, volume = cloud.running(), cloud.volume()
    return lambda: cloud.attach(server, volume, wait=False)


@pytest.mark.parametrize(("request_of", "method"), [(_boot, "create"), (_attach, "reserve")])
def test_what_a_dead_api_has_left_is_taken_over_after_a_lease(cloud, request_of, method):
    ask = request_of(cloud)
    cloud.api_volumes.fail(method, Killed())
    with pytest.raises(Killed):
        ask()
    [(_, until)] = waiting(cloud)
    assert (until - units.utcnow()).total_seconds() <= LEASE
    assert "preparing" not in [thread.name for thread in threading.enumerate()]


def test_only_what_is_still_prepared_is_lengthened(cloud):
    server = cloud.running()
    action_id = cloud.begin(server, "stop")
    before = cloud.action(action_id).lease_until
    cloud.db.write(actions.keep_prepared, [action_id], 1000.0)
    assert cloud.action(action_id).lease_until == before
