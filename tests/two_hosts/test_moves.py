"""Each way of a guest from one host to the other, with pings from another machine meanwhile."""
from __future__ import annotations

from collections.abc import Iterator

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


@pytest.mark.parametrize("step", ["preparing", "running"])
def test_an_aborted_live_migration_leaves_nothing(cloud: Cloud, step: str) -> None:
    server = cloud.boot(cloud.node)
    address = cloud.address(server)
    until_it_answers(address)
    hosts.HERE.slow_down(server)
    cloud.abort_live_migration(server, step)
    host = cloud.host(server)
    cloud.check_ports(server, host)
    until_it_answers(address)
    cloud.does(server, "reboot", {"type": "HARD"})      # the agent wires its ports anew
    until_it_answers(address)
    cloud.check_ports(server, host)


@pytest.fixture
def own_port(cloud: Cloud) -> Iterator[str]:
    """A port of the user's on the provider network."""
    port = cloud.port(cloud.public)
    yield port
    cloud.clean()
    cloud.call("network", "DELETE", f"v2.0/ports/{port}")


def test_a_port_outlives_a_server_that_is_deleted_on_its_way(cloud: Cloud, own_port: str) -> None:
    server = cloud.create(cloud.node, {"port": own_port})
    until_it_answers(cloud.address(server))
    hosts.HERE.slow_down(server)
    cloud.until_migration(server, cloud.begin_live_migration(server), "running")
    cloud.delete(server)

    def is_free() -> bool:
        port = cloud.get("network", f"v2.0/ports/{own_port}")["port"]
        return not port["device_id"] and not port["binding:host_id"] and "migrating_to" not in port["binding:profile"]
    wait_for("the port to be nobody's", is_free, 60, 0.5)
    later = cloud.create(HOST2, {"port": own_port})
    until_it_answers(cloud.address(later))
    cloud.check_ports(later, HOST2)


def test_a_forced_completion_by_post_copy(cloud: Cloud) -> None:
    switched = "live migration: the guest runs on at"
    with hosts.userfaultfd(), hosts.options("[libvirt]\nlive_migration_permit_post_copy = true"):
        server = cloud.boot(cloud.node)
        address = cloud.address(server)
        until_it_answers(address)
        _, boots = counts(cloud.console(server))
        for _ in range(5):      # a copy may be faster than what forces it
            source = hosts.files_of(cloud.host(server))
            source.slow_down(server)
            before = source.log().count(switched)
            with Pings(address) as pings:
                cloud.live_migrate(server, lambda: cloud.force_complete(server))
            if source.log().count(switched) > before:
                break
        else:
            pytest.fail("no guest went on before all of it was there")
        print(f"post-copy: {pings.gap:.1f} s without an answer")
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
