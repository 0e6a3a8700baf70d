"""An attach to a server that is off its host: the request does all of it, or a conductor undoes what it has left."""
from __future__ import annotations

import pytest

from tests.unit.compute.volumes.volume_cloud import DOWN


class Killed(BaseException):
    """The API process, at this line."""


@pytest.fixture
def left_by_a_request(cloud):
    """Lets a request die: (server, volume)."""
    def leave(method, when):
        server, volume = cloud.running(), cloud.volume()
        cloud.member.post(f"/servers/{server}/action", {"shelve": None}, 202)
        cloud.wait(server, "shelved_offloaded", 20)
        cloud.api_volumes.fail(method, Killed(), when)
        with pytest.raises(Killed):
            cloud.member.call("POST", f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
        assert cloud.device(server, volume) is not None
        return server, volume
    return leave


@pytest.mark.parametrize(("method", "when"), [("reserve", "before"), ("reserve", "after"), ("complete", "after")])
def test_one_whose_request_died_is_undone(cloud, left_by_a_request, method, when):
    server, volume = left_by_a_request(method, when)
    cloud.take_over()
    cloud.actions_end(server)
    assert cloud.device(server, volume) is None
    assert (cloud.status(volume), cloud.attachments()) == ("available", [])
    assert cloud.last_action(server)["row"].state == "error"
    cloud.attach(server, volume, wait=False)        # it can be asked for again
    assert cloud.status(volume) == "in-use"


def test_one_that_cannot_be_undone_stays_in_the_list(cloud, left_by_a_request):
    """There a detach finds it."""
    server, volume = left_by_a_request("reserve", "after")
    cloud.conductor_volumes.fail("release", DOWN, times=1)
    cloud.take_over()
    cloud.actions_end(server)
    assert cloud.device(server, volume) is not None
    assert cloud.last_action(server)["row"].state == "error"
    cloud.detach(server, volume)
    cloud.actions_end(server)
    assert (cloud.device(server, volume), cloud.status(volume), cloud.attachments()) == (None, "available", [])
