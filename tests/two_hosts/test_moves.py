"""Each way of a guest from one host to the other, with pings from another machine meanwhile."""
from __future__ import annotations

import pytest

from tests.support.process import wait_for
from tests.two_hosts import hosts
from tests.two_hosts.cloud import Cloud, counts
from tests.two_hosts.pings import Pings, until_it_answers

HOST2 = hosts.HOST2.name


def _is_whole(cloud: Cloud, server: str, boots: set[str]) -> None:
    """The guest has not been reset since ``boots``, and no write was lost."""
    numbers, now = counts(cloud.console(server))
    assert now == boots
    assert numbers == sorted(set(numbers))
    wait_for("the guest to count on", lambda: counts(cloud.console(server))[0][-1] > numbers[-1], 60, 1)


@pytest.mark.parametrize("volume", [False, True])
def test_live_migration_there_and_back(cloud: Cloud, volume: bool) -> None:
    server = cloud.boot(cloud.node, volume)
    address = cloud.address(server)
    until_it_answers(address)
    _, boots = counts(cloud.console(server))
    for host in (HOST2, cloud.node):
        with Pings(address) as pings:
            assert cloud.live_migrate(server) == host
        print(f"to {host}: {pings.gap:.1f} s without an answer")
    _is_whole(cloud, server, boots)


@pytest.mark.parametrize("end", ["confirmResize", "revertResize"])
@pytest.mark.parametrize("verb", ["migrate", "resize"])
def test_cold_moves(cloud: Cloud, verb: str, end: str) -> None:
    server = cloud.boot(cloud.node)
    cloud.act(server, verb, {"flavorRef": cloud.flavors["m1.micro"]} if verb == "resize" else None)
    cloud.until(server, "VERIFY_RESIZE")
    assert cloud.host(server) == HOST2
    until_it_answers(cloud.address(server))
    cloud.does(server, end)
    assert cloud.host(server) == (HOST2 if end == "confirmResize" else cloud.node)
    until_it_answers(cloud.address(server))


def test_a_shelved_server_comes_back_on_the_other_host(cloud: Cloud) -> None:
    server = cloud.boot(cloud.node)
    cloud.does(server, "shelve", status="SHELVED_OFFLOADED")
    cloud.does(server, "unshelve", {"host": HOST2})
    assert cloud.host(server) == HOST2
    until_it_answers(cloud.address(server))


def _state(cloud: Cloud) -> str:
    [service] = cloud.get("compute", f"os-services?binary=nova-compute&host={HOST2}")["services"]
    return str(service["state"])


@pytest.mark.parametrize(("volume", "killed"), [(False, False), (True, True)])
def test_servers_of_a_dead_host_are_evacuated(cloud: Cloud, volume: bool, killed: bool) -> None:
    server = cloud.boot(HOST2, volume)
    hosts.power("off")
    wait_for("the host to be down", lambda: _state(cloud) == "down", 120, 1)
    cloud.act(server, "evacuate", {"host": cloud.node})
    if killed:
        cloud.until_task(server, "rebuild_block_device_mapping", "rebuild_spawning")
        hosts.kill(hosts.HERE.compute)
        hosts.revive(hosts.HERE.compute)
    cloud.until(server, "SHUTOFF")      # since 2.95
    cloud.does(server, "os-start")
    assert cloud.host(server) == cloud.node
    until_it_answers(cloud.address(server))
    hosts.power("on")
    wait_for("the host to be up", lambda: _state(cloud) == "up", 120, 1)
    wait_for("nothing there", lambda: not hosts.HOST2.left(), 120, 1)
    until_it_answers(cloud.address(server))
