"""Commands on the host that change its network, inside ``[network] netns`` where one is set."""
from __future__ import annotations

import ipaddress
import json
import re
import subprocess
import zlib

from oslo_log import log

from nova_lite import exception

LOG = log.getLogger(__name__)
TIMEOUT = 30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_INTERFACE_LENGTH = 15
# one /30 for each namespace, of link-local addresses, which are not routed; without 169.254.169.254
_UPLINKS = ipaddress.IPv4Network("169.254.32.0/19")


def check_name(name: str, what: str = "interface") -> str:
    """The name, or ConfigError: nothing that could be taken for an option or a path reaches a command."""
    if not _NAME.fullmatch(name) or (what == "interface" and len(name) > _INTERFACE_LENGTH):
        raise exception.ConfigError(reason=f"{name!r} is not the name of a network {what}")
    return name


def run(*command: str, given: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one command; VirtDriverError with its output when it fails and ``check`` is set."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT,  # noqa: S603
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise exception.VirtDriverError(what=command[0], reason=str(error)) from error
    LOG.debug("%s: exit %d", " ".join(command), done.returncode)
    if check and done.returncode:
        raise exception.VirtDriverError(what=" ".join(command), reason=(done.stderr or done.stdout).strip()[:500])
    return done


class NetworkHost:
    """Where the bridges live: the host itself, or a network namespace on it with an uplink to the host."""

    def __init__(self, netns: str = "") -> None:
        self.netns = check_name(netns, "namespace") if netns else ""
        number = zlib.crc32(netns.encode())
        uplink = _UPLINKS.network_address + 4 * (number % (_UPLINKS.num_addresses // 4))
        self.uplink_outside, self.uplink_inside = str(uplink + 1), str(uplink + 2)
        self._outside, self._inside = f"nlo{number:08x}", f"nli{number:08x}"

    @property
    def uplink(self) -> tuple[str, str] | None:
        """The interface by which the host reaches into the namespace, and its address at the host's end."""
        return (self._inside, self.uplink_outside) if self.netns else None

    def run(self, *command: str, given: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command where the bridges live."""
        prefix = ("ip", "netns", "exec", self.netns) if self.netns else ()
        return run(*prefix, *command, given=given, check=check)

    def ip(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """``ip`` where the bridges live."""
        return run("ip", *(("-n", self.netns) if self.netns else ()), *arguments, check=check)

    def exists(self, interface: str) -> bool:
        """True when there is an interface of this name."""
        return self.ip("link", "show", "dev", check_name(interface), check=False).returncode == 0

    def attached(self, bridge: str) -> set[str]:
        """The interfaces that are plugged into a bridge."""
        return {one["ifname"] for one in json.loads(self.ip("-j", "link", "show", "master", check_name(bridge)).stdout or "[]")
                if "ifname" in one}

    def sysctl(self, path: str, value: str) -> None:
        """Set one value below /proc/sys."""
        self.run("tee", f"/proc/sys/{path}", given=value)

    def delete_interface(self, interface: str) -> None:
        """Remove an interface if it is there."""
        if self.exists(interface):
            done = self.ip("link", "delete", "dev", interface, check=False)
            if done.returncode and self.exists(interface):      # else another process has removed it
                raise exception.VirtDriverError(what=f"ip link delete {interface}", reason=done.stderr.strip())

    # the namespace --------------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Make the namespace and its uplink when they are missing, and let packets be forwarded."""
        if self.netns:
            self._make_namespace()
        self.sysctl("net/ipv4/ip_forward", "1")

    def _make_namespace(self) -> None:
        names = [line.split()[0] for line in run("ip", "netns", "list").stdout.splitlines() if line.strip()]
        if self.netns not in names:
            run("ip", "netns", "add", self.netns)
        self.ip("link", "set", "lo", "up")
        if not self.exists(self._inside):
            run("ip", "link", "add", self._outside, "type", "veth", "peer", "name", self._inside, "netns", self.netns)
        run("ip", "address", "replace", f"{self.uplink_outside}/30", "dev", self._outside)
        run("ip", "link", "set", self._outside, "up")
        self.ip("address", "replace", f"{self.uplink_inside}/30", "dev", self._inside)
        self.ip("link", "set", self._inside, "up")
        self.ip("route", "replace", "default", "via", self.uplink_outside)

    def check_range(self, cidr: str, bridge: str) -> None:
        """Raise ConfigError for a range that has addresses which the host reaches elsewhere: a link of its own, or a route to
        a part of the range. A route by a gateway to more than the range, as the default route is one, loses only this part."""
        wanted = ipaddress.IPv4Network(cidr)
        for route in json.loads(self.ip("-4", "-j", "route", "show").stdout or "[]"):
            if route["dst"] == "default" or route.get("dev") == bridge:
                continue
            known = ipaddress.IPv4Network(route["dst"])
            if known.overlaps(wanted) and ("gateway" not in route or known.subnet_of(wanted)):
                raise exception.ConfigError(reason=f"network {cidr} overlaps the host's route to {known} by "
                                                   f"{route.get('dev', '?')}")

    def route_to(self, cidr: str) -> None:
        """Make the host outside find the guests in the namespace: the metadata service must see their addresses."""
        if not self.netns:
            return
        known = run("ip", "route", "show", "exact", cidr).stdout
        if known.strip() and self.uplink_inside not in known.split():
            raise exception.ConfigError(reason=f"the host has another route to {cidr}: {known.strip()}")
        run("ip", "route", "replace", cidr, "via", self.uplink_inside)
