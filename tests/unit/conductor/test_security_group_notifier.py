"""Hosts hear of changed security groups, and look by themselves when they do not."""
from __future__ import annotations

import threading

import pytest

from nova_lite.conductor import security_group_notifier
from nova_lite.conductor.security_group_notifier import SecurityGroupNotifier
from nova_lite.db import group_changes, networks, security_groups
from nova_lite.network.group_rules import Rule
from nova_lite.rpc.compute import ComputeAPI
from tests.support.process import wait_for

SSH = Rule("ingress", protocol="tcp", port_min=22, port_max=22)


class Looks:
    """Counts how often a host's network is to look; ``free`` holds the looks up."""

    def __init__(self):
        self.looks, self.free = 0, threading.Event()
        self.free.set()

    def __call__(self):
        assert self.free.wait(60)
        self.looks += 1
        if self.looks == 1:
            raise ValueError("once")


@pytest.fixture
def hosts(cloud, monkeypatch):
    """The looks of h1 and h2, each of which has a port in the group default of the project p."""
    monkeypatch.setattr(security_group_notifier, "PAUSE", 0.0)
    network = cloud.db.write(networks.create_network, name="n", cidr="10.1.0.0/24")["uuid"]
    for name in cloud.hosts:
        server, _ = cloud.create()[0]
        cloud.db.write(networks.allocate_ports, server, "p", name, [{"network_id": network}])
        monkeypatch.setattr(cloud.hosts[name].host.network, "refresh_filters", Looks())
    return {name: manager.host.network.refresh_filters for name, manager in cloud.hosts.items()}


def _looks(hosts):
    return {name: host.looks for name, host in hosts.items()}


def test_whom_a_change_is_about_hears_of_it(cloud, hosts):
    changes = group_changes.GroupChanges(cloud.db, SecurityGroupNotifier(cloud.db, ComputeAPI(cloud.transport)))
    web = changes.create("p", "web", "")["uuid"]
    with cloud.db.read() as c:
        port = networks.list_host_ports(c, "h2")[0]["uuid"]
    changes.update_port(port, "p", None, [web])         # h1 has to forget a member of default
    wait_for("a look of both", lambda: _looks(hosts) == {"h1": 1, "h2": 1}, 60)
    rule = changes.add_rule(web, "p", SSH)["uuid"]
    wait_for("a look of h2", lambda: _looks(hosts) == {"h1": 1, "h2": 2}, 60)
    changes.delete_rule(rule, "p")
    wait_for("another look of h2", lambda: _looks(hosts) == {"h1": 1, "h2": 3}, 60)
    changes.update_port(port, "p", None, [])            # in no group any more
    wait_for("the last look of h2", lambda: _looks(hosts) == {"h1": 1, "h2": 4}, 60)
    changes.update_port(port, "p", "name", None)
    changes.create("p", "more", "")
    changes.add_rule(cloud.db.write(security_groups.ensure_default, "p"), "p", SSH)
    wait_for("a look of h1", lambda: _looks(hosts) == {"h1": 2, "h2": 4}, 60)


def test_an_address_with_a_new_owner_is_told_to_its_network(cloud, hosts):
    server, _ = cloud.create()[0]
    cloud.rpc.allocate_ports(cloud.context, server, "q", "h1", [{}])
    wait_for("a look of both", lambda: _looks(hosts) == {"h1": 1, "h2": 1}, 60)


def test_many_words_that_wait_are_one_and_a_failure_is_not_the_end(cloud, hosts):
    manager, host = cloud.hosts["h1"], hosts["h1"]
    host.free.clear()
    for _ in range(20):
        manager.refresh_security_rules(cloud.context)
    host.free.set()
    wait_for("the end", lambda: not manager._queues.is_busy("security rules"), 60)
    assert host.looks in (1, 2)
    before = host.looks
    [(_, look)] = [loop for loop in manager.periodics() if loop[1] == manager._look_at_rules]
    look()
    wait_for("a look by itself", lambda: host.looks > before, 60)
