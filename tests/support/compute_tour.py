"""Every group of compute commands of the stock ``openstack`` client, each a function that leaves nothing behind.

``openstack`` is :class:`tests.support.openstack_cli.Openstack`; ``server`` the name of a running server that all share.
"""
from __future__ import annotations

import contextlib
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.openstack_cli import Openstack
from tests.support.process import wait_for


def new_name(what: str) -> str:
    """A name that nobody else uses."""
    return f"{what}-{uuid.uuid4().hex[:6]}"


def names(found: list[dict[str, Any]], key: str = "Name") -> list[str]:
    """A column of a list."""
    return [row[key] for row in found]


def until(openstack: Openstack, server: str, status: str) -> None:
    """Wait until the server is idle in that status."""
    def there() -> bool:
        shown = openstack("server", "show", server)
        assert shown["status"] != "ERROR" or status == "ERROR", shown
        return shown["status"] == status and shown["OS-EXT-STS:task_state"] is None
    wait_for(f"{server} to be {status}", there, 60)


@contextlib.contextmanager
def booted(openstack: Openstack, *more: str) -> Iterator[str]:
    """The name of a server that is there for a while."""
    name = new_name("cli")
    made = openstack("server", "create", "--flavor", "m1.nano", "--image", "tiny", "--wait", *more, name)
    assert made["status"] == "ACTIVE"
    try:
        yield name
    finally:
        openstack("server", "delete", "--wait", name, parse=False)


# servers ----------------------------------------------------------------------------------------------------------------
def lists_and_changes(openstack: Openstack, server: str) -> None:
    """list with its filters, show, set, unset, lock, unlock."""
    assert server in names(openstack("server", "list", "--long"))
    for option in (("--name", server), ("--status", "ACTIVE"), ("--flavor", "m1.nano"), ("--image", "tiny"),
                   ("--no-name-lookup",), ("--limit", "50"), ("--sort-column", "Name"), ("--not-tags", "nobody"),
                   ("--unlocked",), ("--changes-since", "2020-01-01T00:00:00Z")):
        assert server in names(openstack("server", "list", *option)), option
    assert "Policy doesn't allow" in openstack("server", "list", "--all-projects", fails=True)
    openstack("server", "set", "--description", "words", "--property", "a=1", "--property", "b=2", "--tag", "blue",
              "--hostname", "web", server, parse=False)
    shown = openstack("server", "show", server)
    assert (shown["description"], shown["properties"], shown["tags"]) == ("words", {"a": "1", "b": "2"}, ["blue"])
    assert shown["OS-EXT-SRV-ATTR:hostname"] == "web"
    assert server in names(openstack("server", "list", "--tags", "blue"))
    openstack("server", "unset", "--property", "a", "--description", "--tag", "blue", server, parse=False)
    shown = openstack("server", "show", server)
    assert (shown["description"] or "", shown["properties"], shown["tags"]) == ("", {"b": "2"}, [])
    openstack("server", "lock", "--reason", "mine", server, parse=False)
    assert openstack("server", "show", server)["locked_reason"] == "mine"
    openstack("server", "unlock", server, parse=False)
    assert openstack("server", "show", server)["locked"] is False
    openstack("server", "set", "--name", f"{server}-b", server, parse=False)
    openstack("server", "set", "--name", server, f"{server}-b", parse=False)
    # by itself the client asks for a topology at 2.1, where there is none
    assert openstack("--os-compute-api-version", "2.78", "server", "show", "--topology", server)["topology"]["nodes"] == []


def states(openstack: Openstack, operator: Openstack, server: str) -> None:
    """stop, start, pause, unpause, suspend, resume, reboot, set --state, dump."""
    for verb, status in (("stop", "SHUTOFF"), ("start", "ACTIVE"), ("pause", "PAUSED"), ("unpause", "ACTIVE"),
                         ("suspend", "SUSPENDED"), ("resume", "ACTIVE")):
        openstack("server", verb, server, parse=False)
        until(openstack, server, status)
    openstack("server", "reboot", "--soft", "--wait", server, parse=False)
    openstack("server", "reboot", "--hard", "--wait", server, parse=False)
    uuid = openstack("server", "show", server)["id"]
    operator("server", "set", "--state", "error", "--auto-approve", uuid, parse=False)
    assert openstack("server", "show", server)["status"] == "ERROR"
    operator("server", "set", "--state", "active", "--auto-approve", uuid, parse=False)
    openstack("server", "dump", "create", server, parse=False)
    until(openstack, server, "ACTIVE")
    assert "nobody" in openstack("server", "show", "nobody", fails=True)


def new_disks(openstack: Openstack, server: str) -> None:
    """rebuild, rescue, unrescue."""
    openstack("server", "rebuild", "--image", "tiny", "--name", server, "--description", "anew", "--wait", server, parse=False)
    until(openstack, server, "ACTIVE")
    assert openstack("server", "show", server)["description"] == "anew"
    openstack("server", "rescue", "--image", "tiny", "--password", "s3cret", server, parse=False)
    until(openstack, server, "RESCUE")
    openstack("server", "unrescue", server, parse=False)
    until(openstack, server, "ACTIVE")


def shelving(openstack: Openstack, server: str) -> None:
    """shelve, unshelve."""
    openstack("server", "shelve", "--offload", "--wait", server, parse=False)
    until(openstack, server, "SHELVED_OFFLOADED")
    openstack("server", "unshelve", "--wait", server, parse=False)
    until(openstack, server, "ACTIVE")


def moves(openstack: Openstack, operator: Openstack, server: str) -> None:
    """resize, cold migration (confirm and revert of both), live migration, server migration list."""
    flavor = new_name("larger")
    operator("flavor", "create", "--ram", "128", "--disk", "1", "--vcpus", "2", flavor)
    uuid = openstack("server", "show", server)["id"]
    old = openstack("server", "show", server)["flavor"]["original_name"]
    for verb, ends_with in (("revert", old), ("confirm", flavor)):
        openstack("server", "resize", "--flavor", flavor, "--wait", server, parse=False)
        until(openstack, server, "VERIFY_RESIZE")
        openstack("server", "resize", verb, server, parse=False)
        until(openstack, server, "ACTIVE")
        assert openstack("server", "show", server)["flavor"]["original_name"] == ends_with
    host = operator("server", "show", uuid)["OS-EXT-SRV-ATTR:host"]
    for verb, option, moved in (("revert", (), False), ("confirm", ("--wait",), True)):
        operator("server", "migrate", *option, uuid, parse=False)
        until(openstack, server, "VERIFY_RESIZE")
        operator("server", "migration", verb, uuid, parse=False)
        until(openstack, server, "ACTIVE")
        assert (operator("server", "show", uuid)["OS-EXT-SRV-ATTR:host"] != host) is moved
    operator("server", "migrate", "--live-migration", "--wait", uuid, parse=False)
    until(openstack, server, "ACTIVE")
    assert operator("server", "show", uuid)["OS-EXT-SRV-ATTR:host"] == host
    found = operator("server", "migration", "list", "--server", uuid)
    assert [row["Type"] for row in found] == ["live-migration", "migration", "migration", "resize", "resize"]
    openstack("server", "resize", "--flavor", old, "--wait", server, parse=False)
    openstack("server", "resize", "confirm", server, parse=False)
    until(openstack, server, "ACTIVE")
    operator("flavor", "delete", flavor, parse=False)


def consoles(openstack: Openstack, operator: Openstack, server: str) -> None:
    """console url show, console connection show."""
    made = openstack("console", "url", "show", "--novnc", server)
    assert (made["protocol"], made["type"]) == ("vnc", "novnc")
    token = made["url"].rpartition("%3Ftoken%3D")[2]
    shown = operator("console", "connection", "show", token)
    assert shown["instance_uuid"] == openstack("server", "show", server)["id"]


def events_and_console(openstack: Openstack, operator: Openstack, server: str) -> None:
    """server event, console log, show --diagnostics, server migration list."""
    events = openstack("server", "event", "list", server)
    assert "create" in names(events, "Action")
    assert openstack("server", "event", "list", "--long", server)[0]["Project ID"]
    made = next(event for event in events if event["Action"] == "create")
    shown = openstack("server", "event", "show", server, made["Request ID"])
    assert (shown["action"], bool(shown["events"])) == ("create", True)
    assert openstack("console", "log", "show", "--lines", "5", server, parse=False).strip()
    uuid = openstack("server", "show", server)["id"]
    assert operator("server", "show", "--diagnostics", uuid)["state"] == "running"
    assert isinstance(operator("server", "migration", "list"), list)


def many_at_once(openstack: Openstack) -> None:
    """--min/--max, hints, properties, config drive, user data, a file of its own; delete of several."""
    name = new_name("many")
    openstack("server", "create", "--flavor", "m1.nano", "--image", "tiny", "--nic", "none", "--min", "2", "--max", "2",
              "--wait", "--property", "k=v", "--config-drive", "True", "--description", "both", "--tag", "t", name)
    found = names(openstack("server", "list", "--name", name))
    assert sorted(found) == [f"{name}-1", f"{name}-2"]
    shown = openstack("server", "show", found[0])
    assert [shown[key] for key in ("properties", "config_drive", "tags", "description")] == [{"k": "v"}, "True", ["t"], "both"]
    openstack("server", "delete", "--wait", *found, parse=False)
    assert openstack("server", "list", "--name", name) == []


# what servers are made of -------------------------------------------------------------------------------------------------
def flavors(openstack: Openstack) -> None:
    """flavor create, list, show, set, unset, delete."""
    name, project = new_name("flavor"), openstack("project", "show", "service")["id"]
    openstack("flavor", "create", "--ram", "64", "--disk", "1", "--vcpus", "1", "--private", "--property",
              "hw:cpu_policy=shared", "--description", "words", "--project", project, name)
    try:
        assert name in names(openstack("flavor", "list", "--all"))
        assert name in names(openstack("flavor", "list", "--private", "--long"))
        assert name not in names(openstack("flavor", "list", "--public"))
        openstack("flavor", "set", "--property", "quota:vif_outbound_average=10", "--description", "new", name, parse=False)
        shown = openstack("flavor", "show", name)
        assert shown["properties"] == {"hw:cpu_policy": "shared", "quota:vif_outbound_average": "10"}
        assert (shown["description"], shown["access_project_ids"]) == ("new", [project])
        openstack("flavor", "unset", "--property", "hw:cpu_policy", "--project", project, name, parse=False)
        shown = openstack("flavor", "show", name)
        assert (shown["properties"], shown["access_project_ids"]) == ({"quota:vif_outbound_average": "10"}, [])
    finally:
        openstack("flavor", "delete", name, parse=False)
    assert name not in names(openstack("flavor", "list", "--all", "--min-ram", "1", "--min-disk", "0"))


def keypairs(openstack: Openstack, directory: pathlib.Path) -> None:
    """keypair create (private key made by the client, public key of a file), list, show, delete."""
    name = new_name("key")
    openstack("keypair", "create", "--private-key", str(directory / name), name)
    assert "PRIVATE KEY" in (directory / name).read_text()
    public = openstack("keypair", "show", "--public-key", name, parse=False)
    assert public.startswith("ssh-")
    (directory / f"{name}.pub").write_text(public)
    openstack("keypair", "create", "--public-key", str(directory / f"{name}.pub"), "--type", "ssh", f"{name}-2")
    assert {name, f"{name}-2"} <= set(names(openstack("keypair", "list")))
    assert openstack("keypair", "show", name)["fingerprint"] == openstack("keypair", "show", f"{name}-2")["fingerprint"]
    openstack("keypair", "delete", name, f"{name}-2", parse=False)


def server_groups(openstack: Openstack) -> None:
    """server group create with a rule, list, show, delete, and a server that is a member."""
    name = new_name("group")
    made = openstack("server", "group", "create", "--policy", "anti-affinity", "--rule", "max_server_per_host=2", name)
    assert (made["policy"], made["rules"]) == ("anti-affinity", {"max_server_per_host": 2})
    with booted(openstack, "--nic", "none", "--hint", f"group={made['id']}") as member:
        uuid = openstack("server", "show", member)["id"]
        assert openstack("server", "group", "show", name)["members"] == [uuid]
        # by name the client takes the server out of a list, in which there are no groups
        assert openstack("server", "show", uuid)["server_groups"] == [made["id"]]
    assert name in names(openstack("server", "group", "list", "--long"))
    assert name in names(openstack("server", "group", "list", "--all-projects", cloud="nova-lite"))
    openstack("server", "group", "delete", name, parse=False)


# the operator's -----------------------------------------------------------------------------------------------------------
def hosts(openstack: Openstack) -> None:
    """hypervisor, compute service, host, availability zone, extension; compute agent, which is gone as in Nova."""
    hypervisors = openstack("hypervisor", "list", "--long")
    found = names(hypervisors, "Hypervisor Hostname")
    shown = openstack("hypervisor", "show", found[0])
    assert (shown["hypervisor_hostname"], shown["state"], shown["status"]) == (found[0], "up", "enabled")
    matching = names(openstack("hypervisor", "list", "--matching", found[0]), "Hypervisor Hostname")
    assert found[0] in matching
    assert [name for name in matching if found[0] not in name] == []
    assert openstack("hypervisor", "stats", "show")["count"] == len(found)
    services = openstack("compute", "service", "list", "--long")
    assert {"nova-compute", "nova-conductor", "nova-scheduler"} <= set(names(services, "Binary"))
    host = next(service["Host"] for service in services if service["Binary"] == "nova-compute")

    def service() -> dict[str, Any]:
        return openstack("compute", "service", "list", "--host", host, "--service", "nova-compute", "--long")[0]
    openstack("compute", "service", "set", "--disable", "--disable-reason", "for repair", host, "nova-compute", parse=False)
    assert (service()["Status"], service()["Disabled Reason"]) == ("disabled", "for repair")
    openstack("compute", "service", "set", "--enable", host, "nova-compute", parse=False)
    openstack("compute", "service", "set", "--down", host, "nova-compute", parse=False)
    assert service()["State"] == "down"
    openstack("compute", "service", "set", "--up", host, "nova-compute", parse=False)
    assert service()["Status"] == "enabled"
    assert host in names(openstack("host", "list"), "Host Name")
    assert openstack("host", "show", host)[0]["Host"] == host
    openstack("host", "set", "--disable", host, parse=False)
    openstack("host", "set", "--enable", host, parse=False)
    assert "nova" in names(openstack("availability", "zone", "list", "--compute", "--long"), "Zone Name")
    assert "os-evacuate" in names(openstack("extension", "list", "--compute"), "Alias")
    assert "410" in openstack("compute", "agent", "list", fails=True)


def aggregates(openstack: Openstack) -> None:
    """aggregate create, set, unset, add host, remove host, cache image, list, show, delete; the zone that it makes."""
    name = new_name("aggregate")
    hosts = [service["Host"] for service in openstack("compute", "service", "list", "--service", "nova-compute")]
    # a host that has servers may not get into another zone
    host = next(host for host in hosts if not openstack("server", "list", "--all-projects", "--host", host))
    openstack("aggregate", "create", "--zone", f"{name}-z", "--property", "a=1", name)
    try:
        openstack("aggregate", "set", "--property", "b=2", name, parse=False)
        openstack("aggregate", "unset", "--property", "a", name, parse=False)
        openstack("aggregate", "set", "--name", f"{name}-new", name, parse=False)
        openstack("aggregate", "set", "--name", name, f"{name}-new", parse=False)
        if not [a for a in openstack("aggregate", "list", "--long") if a.get("Properties", {}).get("availability_zone")
                and a["Name"] != name]:
            assert openstack("aggregate", "add", "host", name, host)["hosts"] == [host]
            assert f"{name}-z" in names(openstack("availability", "zone", "list", "--compute"), "Zone Name")
            openstack("aggregate", "cache", "image", name, "tiny", parse=False)
            openstack("aggregate", "remove", "host", name, host)
        shown = openstack("aggregate", "show", name)
        assert (shown["properties"], shown["availability_zone"], shown["hosts"]) == ({"b": "2"}, f"{name}-z", [])
        assert name in names(openstack("aggregate", "list"))
    finally:
        openstack("aggregate", "delete", name, parse=False)


def quotas(openstack: Openstack, project: str) -> None:
    """quota show, set, list, delete, of a project and of the class; limits; usage."""
    def told(*more: str) -> dict[str, Any]:
        return {row["Resource"]: row["Limit"] for row in openstack("quota", "show", "--compute", *more, project)}

    before, everyone = told()["instances"], told("--default")
    openstack("quota", "set", "--instances", "17", "--key-pairs", "21", "--force", project, parse=False)
    assert (told()["instances"], told()["key-pairs"], told("--default")) == (17, 21, everyone)
    mine = openstack("project", "show", project)["id"]
    row, = [row for row in openstack("quota", "list", "--compute") if row["Project ID"] == mine]
    assert (row["Instances"], row["Key Pairs"]) == (17, 21)
    for option, cores in (("--default", 33), ("--class", everyone["cores"])):       # two names of one thing
        openstack("quota", "set", option, "--cores", str(cores), "default", parse=False)
        assert (told("--default")["cores"], told()["cores"], told()["instances"]) == (cores, cores, 17)
    usage = openstack("quota", "show", "--compute", "--usage", project)
    assert next(row for row in usage if row["Resource"] == "instances")["In Use"] >= 0
    openstack("quota", "delete", "--compute", project, parse=False)
    assert told()["instances"] == before
    limits = {row["Name"]: row["Value"] for row in openstack("limits", "show", "--absolute", "--project", project)}
    assert limits["max_total_instances" if "max_total_instances" in limits else "maxTotalInstances"] == before
    assert isinstance(openstack("limits", "show", "--rate"), list)
    assert isinstance(openstack("usage", "list", "--start", "2026-01-01", "--end", "2036-01-01"), list)
    assert openstack("usage", "show", "--project", project)["Project"]
