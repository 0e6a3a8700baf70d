"""One dnsmasq per bridge, which knows every guest of this host by its hardware address and answers no other.

It is a daemon of its own: guests keep their leases while nova-lite-compute restarts. Its directory
``<state_path>/dhcp/<bridge>`` has all its files. The leases in it may be lost at any time, as each address is static.
"""
from __future__ import annotations

import ipaddress
import os
import pathlib
import re
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oslo_log import log

from nova_lite import durable, exception
from nova_lite.network import ipam
from nova_lite.network.host import NetworkHost, check_name

LOG = log.getLogger(__name__)
LEASE_SECONDS = 86400
STOP_SECONDS = 5.0
MAX_LOG = 2 ** 20       # bytes
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_HOSTNAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Lease:
    """The address of one guest's nic. ``hostname`` is left out when it is none that DHCP may carry."""

    mac: str
    address: str
    hostname: str = ""

    def __post_init__(self) -> None:
        if not _MAC.fullmatch(self.mac):
            raise exception.InvalidInput(reason=f"{self.mac!r} is not a hardware address")
        ipaddress.IPv4Address(self.address)

    def line(self) -> str:
        """As dnsmasq reads it."""
        named = f",{self.hostname}" if _HOSTNAME.fullmatch(self.hostname) else ""
        return f"{self.mac},{self.address}{named}"


class Dnsmasq:
    """The daemon of one bridge."""

    def __init__(self, directory: pathlib.Path, bridge: str, host: NetworkHost) -> None:
        self.directory = directory / check_name(bridge)
        self.bridge, self.host = bridge, host
        self._conf, self._hosts = self.directory / "dnsmasq.conf", self.directory / "hosts"
        self._leases, self._pid, self._log = (self.directory / name for name in ("leases", "pid", "log"))

    def sync(self, network: dict[str, Any], leases: Iterable[Lease]) -> None:
        """Start or restart the daemon, or let it read its hosts again, as far as needed."""
        known = {lease.address: lease for lease in leases}
        self.directory.mkdir(parents=True, exist_ok=True)
        self._bound_log()
        configured = _write(self._conf, configuration(network, self.directory, _user(self.directory)))
        changed = _write(self._hosts, "".join(f"{known[a].line()}\n" for a in sorted(known)))
        stale = self._stale_leases(known)
        pid = self.pid()
        if pid is not None and not configured and not stale:
            if changed:
                os.kill(pid, signal.SIGHUP)
            return
        self.stop()
        if stale:
            # dnsmasq would not give an address to its new owner while it remembers the former one
            kept = [line for line in self._lease_lines() if line not in stale]
            _write(self._leases, "".join(f"{line}\n" for line in kept))
        LOG.info("starting dnsmasq on %s", self.bridge)
        self.host.run("dnsmasq", f"--conf-file={self._conf}")

    def pid(self) -> int | None:
        """The daemon's process id, or None when it does not run. A number that another process got since is not taken."""
        try:
            pid = int(self._pid.read_text())
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(f"--conf-file={self._conf}") in command else None

    def stop(self) -> None:
        """End the daemon and wait until it is gone."""
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self.pid() is not None:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def remove(self) -> None:
        """End the daemon and delete what it had."""
        self.stop()
        if self.directory.is_dir():
            for path in self.directory.iterdir():
                path.unlink()
            self.directory.rmdir()

    def _bound_log(self) -> None:
        """quiet-dhcp is not quiet about questions that have no answer: guests can make it write on and on."""
        if self._log.exists() and self._log.stat().st_size > MAX_LOG:
            os.truncate(self._log, 0)       # dnsmasq appends

    def _lease_lines(self) -> list[str]:
        return self._leases.read_text().splitlines() if self._leases.exists() else []

    def _stale_leases(self, known: dict[str, Lease]) -> list[str]:
        """Lines of the lease file (expiry, hardware address, address, ...) whose address has another owner now."""
        stale = []
        for line in self._lease_lines():
            fields = line.split()
            if len(fields) > 2 and fields[2] in known and known[fields[2]].mac != fields[1]:
                stale.append(line)
        return stale


def configuration(network: dict[str, Any], directory: pathlib.Path, user: str) -> str:
    """dnsmasq.conf of a network: static addresses only, no DNS, the way to the metadata service as a route of its own."""
    cidr = ipaddress.IPv4Network(network["cidr"])
    gateway = ipaddress.IPv4Address(network["gateway"])
    lines = ["port=0", f"interface={check_name(network['bridge'])}", "bind-interfaces", "except-interface=lo",
             f"dhcp-range={cidr.network_address},static,{cidr.netmask},{LEASE_SECONDS}", "dhcp-authoritative",
             f"dhcp-option=option:router,{gateway}", f"dhcp-option=option:mtu,{int(network['mtu'])}",
             f"dhcp-option=option:classless-static-route,{ipam.METADATA_ADDRESS}/32,{gateway},0.0.0.0/0,{gateway}",
             f"dhcp-hostsfile={directory}/hosts", f"dhcp-leasefile={directory}/leases", f"pid-file={directory}/pid",
             f"dhcp-lease-max={cidr.num_addresses}", f"log-facility={directory}/log", "quiet-dhcp", "no-ping", "no-resolv",
             "no-hosts", f"user={user}"]
    if network["dns"]:
        lines.append("dhcp-option=option:dns-server," + ",".join(str(ipaddress.IPv4Address(d)) for d in network["dns"]))
    return "\n".join(lines) + "\n"


def _user(directory: pathlib.Path) -> str:
    """nobody, unless that user cannot reach the directory: the daemon reads its hosts again as that user."""
    path = directory.absolute()
    return "nobody" if all(p.stat().st_mode & 0o001 for p in (path, *path.parents)) else "root"


def _write(path: pathlib.Path, text: str) -> bool:
    """Replace a file when it differs; True when it did."""
    if path.exists() and path.read_text() == text:
        return False
    with durable.written_whole(path, mode=0o644, sync=False) as part:
        part.write_text(text)
    return True
