"""Commands of the stock ``openstack`` client for a host that is slow and then dead, and for servers deleted softly."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.support.compute_tour import names, new_name, until
from tests.support.openstack_cli import Openstack
from tests.support.process import Process, wait_for


def compute_service(operator: Openstack, host: str) -> list[dict[str, Any]]:
    """The host's row in the list of services; none when there is none."""
    return list(operator("compute", "service", "list", "--host", host, "--service", "nova-compute"))


def host_of(operator: Openstack, server: str) -> str:
    """Where the server is."""
    return str(operator("server", "show", server)["OS-EXT-SRV-ATTR:host"])


@contextlib.contextmanager
def pair_on(operator: Openstack, host: str) -> Iterator[list[str]]:
    """The ids of two servers that begin on that host: server create --host."""
    wait_for(f"{host} to be up", lambda: [s["State"] for s in compute_service(operator, host)] == ["up"], 120, 0.5)
    name = new_name("pair")
    operator("server", "create", "--flavor", "m1.nano", "--image", "tiny", "--nic", "none", "--host", host, "--min", "2",
             "--max", "2", "--wait", name)
    found = names(operator("server", "list", "--name", name), "ID")
    try:
        assert len(found) == 2
        assert {host_of(operator, server) for server in found} == {host}
        yield found
    finally:
        operator("server", "delete", "--force", "--wait", *found, parse=False)


def _moves(operator: Openstack, server: str) -> list[str]:
    """How its live migrations have ended, the newest first."""
    return names(operator("server", "migration", "list", "--server", server, "--type", "live-migration"), "Status")


def _copying(operator: Openstack, server: str) -> dict[str, Any]:
    """Begin a live migration; its row as soon as the guest is being copied."""
    operator("server", "migrate", "--live-migration", server, parse=False)

    def running() -> list[dict[str, Any]]:
        return list(operator("server", "migration", "list", "--server", server, "--status", "running"))
    return dict(wait_for(f"{server} to be copied", running, 60)[0])  # type: ignore[index]


def live_migrations(operator: Openstack, server: str) -> None:
    """server migration show, abort, force complete: of a server whose host takes long."""
    host = host_of(operator, server)
    move = _copying(operator, server)
    # by its number the client asks for the server of that number
    shown = operator("server", "migration", "show", server, move["UUID"])
    assert (shown["Status"], shown["Source Compute"], shown["UUID"]) == ("running", host, move["UUID"])
    operator("server", "migration", "abort", server, str(move["Id"]), parse=False)
    until(operator, server, "ACTIVE")
    assert (host_of(operator, server), _moves(operator, server)) == (host, ["cancelled"])
    move = _copying(operator, server)
    operator("server", "migration", "force", "complete", server, move["UUID"], parse=False)
    until(operator, server, "ACTIVE")
    assert host_of(operator, server) == move["Dest Compute"] != host
    assert _moves(operator, server) == ["completed", "cancelled"]
    assert "not found" in operator("server", "migration", "abort", server, move["UUID"], fails=True)


def evacuation(operator: Openstack, host: str, process: Process) -> None:
    """compute service set --down, server evacuate, compute service delete: ``process`` is the host's daemon, and dies."""
    servers = names(operator("server", "list", "--all-projects", "--host", host), "ID")
    assert servers
    assert "in use" in operator("server", "evacuate", servers[0], fails=True)
    process.kill()
    operator("compute", "service", "set", "--down", host, "nova-compute", parse=False)
    service, = compute_service(operator, host)
    assert service["State"] == "down"
    assert "failed to delete" in operator("compute", "service", "delete", service["ID"], fails=True)
    for server in servers:
        # not with --wait: the client compares "active" with "ACTIVE", and never ends
        assert operator("server", "evacuate", server)["id"] == server
        until(operator, server, "SHUTOFF")      # since 2.95 whoever evacuates starts it
        assert host_of(operator, server) != host
        move, = operator("server", "migration", "list", "--server", server, "--type", "evacuation")
        assert (move["Status"], move["Source Compute"]) == ("done", host)
    operator("compute", "service", "delete", service["ID"], parse=False)
    assert compute_service(operator, host) == []
    assert host not in names(operator("hypervisor", "list"), "Hypervisor Hostname")


def soft_delete(openstack: Openstack, soft_deleting: str, server: str) -> None:
    """server delete and restore; ``soft_deleting`` names the same cloud, where servers are deleted only after some time."""
    shown = openstack("server", "show", server)
    openstack("server", "delete", server, parse=False, cloud=soft_deleting)
    until(openstack, shown["id"], "SOFT_DELETED")
    assert server not in names(openstack("server", "list"))
    assert server in names(openstack("server", "list", "--status", "SOFT_DELETED"))
    openstack("server", "restore", shown["id"], parse=False)
    until(openstack, server, "ACTIVE")
    again = openstack("server", "show", server)
    assert (again["id"], again["addresses"]) == (shown["id"], shown["addresses"])
    assert "409" in openstack("server", "restore", shown["id"], fails=True)
