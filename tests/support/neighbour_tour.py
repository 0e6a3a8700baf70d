"""Commands of the stock ``openstack`` client that are about a server and the things of Neutron, Glance and Cinder."""
from __future__ import annotations

import json
from typing import Any

from tests.support.compute_tour import booted, names, new_name, until
from tests.support.openstack_cli import Openstack
from tests.support.process import wait_for


def status(openstack: Openstack, what: str, name: str) -> str:
    """Of a volume, snapshot or image."""
    return str(openstack(*what.split(), "show", name)["status"])


def wait_status(openstack: Openstack, what: str, name: str, wanted: str) -> None:
    """Until a volume, snapshot or image has that status."""
    wait_for(f"{what} {name} to be {wanted}", lambda: status(openstack, what, name) == wanted, 60)


def addresses(openstack: Openstack, server: str, network: str = "private") -> list[str]:
    """The server's addresses in a network."""
    found = openstack("server", "show", server)["addresses"]
    return list(found.get(network, [])) if isinstance(found, dict) else [str(found)]


def ports(openstack: Openstack, server: str) -> None:
    """server add and remove port, network, fixed ip; port list --server."""
    name = new_name("port")
    before = addresses(openstack, server)
    port = openstack("port", "create", "--network", "private", name)
    openstack("server", "add", "port", "--tag", "extra", server, name, parse=False)
    address = port["fixed_ips"][0]["ip_address"]
    wait_for("the port's address", lambda: address in addresses(openstack, server), 30)
    assert port["id"] in names(openstack("port", "list", "--server", server), "ID")
    openstack("server", "remove", "port", server, name, parse=False)
    wait_for("the port to go", lambda: addresses(openstack, server) == before, 30)
    openstack("port", "delete", name, parse=False)
    openstack("server", "add", "network", server, "private", parse=False)
    wait_for("another address", lambda: len(addresses(openstack, server)) == len(before) + 1, 30)
    new = next(a for a in addresses(openstack, server) if a not in before)
    openstack("--os-compute-api-version", "2.43", "server", "remove", "fixed", "ip", server, new, parse=False)
    wait_for("the address to go", lambda: addresses(openstack, server) == before, 30)
    openstack("server", "add", "fixed", "ip", server, "private", parse=False)
    openstack("server", "remove", "network", server, "private", parse=False)
    wait_for("all to go", lambda: addresses(openstack, server) == [], 30)
    openstack("server", "add", "network", server, "private", parse=False)


def security_groups(openstack: Openstack, server: str) -> None:
    """server add and remove security group."""
    name = new_name("sg")
    openstack("security", "group", "create", name)

    def groups() -> set[str]:
        return {group["name"] for group in openstack("server", "show", server)["security_groups"]}
    openstack("server", "add", "security", "group", server, name, parse=False)
    assert name in groups()
    openstack("server", "remove", "security", "group", server, name, parse=False)
    assert name not in groups()
    openstack("security", "group", "delete", name, parse=False)


def floating_ips(openstack: Openstack, server: str) -> None:
    """server add and remove floating ip."""
    made = openstack("floating", "ip", "create", "public")
    try:
        openstack("server", "add", "floating", "ip", server, made["floating_ip_address"], parse=False)
        assert openstack("floating", "ip", "show", made["id"])["fixed_ip_address"] in addresses(openstack, server)
        openstack("server", "remove", "floating", "ip", server, made["floating_ip_address"], parse=False)
        assert openstack("floating", "ip", "show", made["id"])["fixed_ip_address"] is None
    finally:
        openstack("floating", "ip", "delete", made["id"], parse=False)


def volumes(openstack: Openstack, server: str) -> None:
    """server add and remove volume, server volume list, set and update; show of both sides."""
    name = new_name("vol")
    volume = openstack("volume", "create", "--size", "1", name)
    wait_status(openstack, "volume", name, "available")
    attached = openstack("server", "add", "volume", "--tag", "data", "--enable-delete-on-termination", server, name)
    assert (attached["Volume ID"], attached["Tag"], attached["Delete On Termination"]) == (volume["id"], "data", True)
    wait_status(openstack, "volume", name, "in-use")
    # "update" is the old name of "set"
    for verb, option, goes in (("update", "--preserve-on-termination", False), ("set", "--delete-on-termination", True),
                               ("set", "--preserve-on-termination", False)):
        openstack("server", "volume", verb, option, server, name, parse=False)
        row, = [r for r in openstack("server", "volume", "list", server) if r["Volume ID"] == volume["id"]]
        assert row["Delete On Termination?" if "Delete On Termination?" in row else "Delete On Termination"] is goes
    assert volume["id"] in json.dumps(openstack("server", "show", server)["volumes_attached"])
    openstack("server", "remove", "volume", server, name, parse=False)
    wait_status(openstack, "volume", name, "available")
    openstack("volume", "delete", name, parse=False)


def boot_from_volume(openstack: Openstack) -> None:
    """server create from a volume that is made of an image, from a volume, and with block devices beside the image."""
    with booted(openstack, "--nic", "none", "--boot-from-volume", "1") as server:
        row, = openstack("server", "volume", "list", server)
        assert openstack("server", "show", server)["image"] in ("N/A (booted from volume)", "", None)
    _gone(openstack, row["Volume ID"])
    name = new_name("root")
    openstack("volume", "create", "--size", "1", "--image", "tiny", "--bootable", name)
    wait_status(openstack, "volume", name, "available")
    server = new_name("cli")
    openstack("server", "create", "--flavor", "m1.nano", "--volume", name, "--nic", "none", "--block-device",
              "source_type=blank,destination_type=volume,volume_size=1,delete_on_termination=true,tag=scratch", "--wait",
              server)
    assert len(openstack("server", "volume", "list", server)) == 2
    openstack("server", "delete", "--wait", server, parse=False)
    wait_status(openstack, "volume", name, "available")
    openstack("volume", "delete", name, parse=False)


def _gone(openstack: Openstack, volume: str) -> None:
    """The volume that came with a server stays unless it was asked to go: remove it."""
    if volume in names(openstack("volume", "list"), "ID"):
        wait_status(openstack, "volume", volume, "available")
        openstack("volume", "delete", volume, parse=False)


def images(openstack: Openstack, server: str) -> None:
    """server image create, server backup create."""
    for command, option in ((("server", "image", "create"), ()), (("server", "backup", "create"), ("--rotate", "1"))):
        name = new_name("image")
        made = openstack(*command, "--name", name, *option, "--wait", server)
        try:
            assert (status(openstack, "image", made["id"]), made["name"]) == ("active", name)
        finally:
            openstack("image", "delete", made["id"], parse=False)
        until(openstack, server, "ACTIVE")


def shares(openstack: Openstack, server: str, share: str) -> None:
    """server add and remove share, server share list and show: of a stopped server."""
    def found() -> list[dict[str, Any]]:
        return list(openstack("server", "share", "list", server))
    openstack("server", "stop", server, parse=False)
    until(openstack, server, "SHUTOFF")
    assert openstack("server", "add", "share", "--tag", "files", server, share)["Share ID"] == share
    wait_for("the share", lambda: names(found(), "Status") == ["inactive"], 60)
    shown = openstack("server", "share", "show", server, share)
    assert (shown["Share ID"], shown["Status"], shown["Tag"]) == (share, "inactive", "files")
    openstack("server", "remove", "share", server, share, parse=False)
    wait_for("the share to go", lambda: found() == [], 60)
    openstack("server", "start", server, parse=False)
    until(openstack, server, "ACTIVE")


ALL: tuple[Any, ...] = (ports, security_groups, floating_ips, volumes, images)
