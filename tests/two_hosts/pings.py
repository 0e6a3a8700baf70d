"""Pings from another machine of the provider networks: a network namespace of the test's own."""
from __future__ import annotations

import re
import signal
import subprocess
import time
from types import TracebackType

from tests.support.process import wait_for
from tests.two_hosts.hosts import HERE, HOST2, run

NAMESPACE = "nl-pinger"
VLAN, VLAN_SUBNET = 2007, "172.24.7.0/24"      # of a provider network that a test makes
_CABLES = (("nl-pinger", "eth0", "172.24.4.3/24", ()), ("nl-pinger-vlan", "eth1", "172.24.7.3/24", (f"tag={VLAN}",)))
_VSCTL = ("ovs-vsctl", f"--db=unix:{HERE.switch / 'db.sock'}")
INTERVAL = 0.1
_ANSWER = re.compile(r"\[(\d+\.\d+)\] \d+ bytes from")


def plug() -> None:
    """Make the machine, on the bridge br-ex of the first host."""
    unplug()
    run("ip", "netns", "add", NAMESPACE)
    for cable, nic, address, tag in _CABLES:
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", nic, "netns", NAMESPACE)
        run("ethtool", "-K", cable, "tx", "off")
        run("ip", "netns", "exec", NAMESPACE, "ethtool", "-K", nic, "tx", "off")
        run("ip", "-n", NAMESPACE, "address", "add", address, "dev", nic)
        run("ip", "-n", NAMESPACE, "link", "set", nic, "up")
        run("ip", "link", "set", cable, "up")
        run(*_VSCTL, "--may-exist", "add-port", "br-ex", cable, *tag)


def unplug() -> None:
    """Remove it."""
    for cable, *_ in _CABLES:
        run(*_VSCTL, "--if-exists", "del-port", cable, check=False)
        run("ip", "link", "delete", cable, check=False)
    run("ip", "netns", "delete", NAMESPACE, check=False)


def answers(address: str) -> bool:
    """Whether a guest does, now."""
    done = subprocess.run(["ip", "netns", "exec", NAMESPACE, "ping", "-c", "1", "-W", "2", address], capture_output=True,
                          check=False)
    return done.returncode == 0


def until_it_answers(address: str, seconds: float = 240) -> None:
    """AssertionError when it does not within so many seconds."""
    try:
        wait_for(f"{address} to answer", lambda: answers(address), seconds, 0.5)
    except AssertionError as error:
        # the counters before and after one more ping show how far it comes
        before, again, after = _data_paths(), answers(address), _data_paths()
        raise AssertionError(f"{error}; a ping later: {again}\n{before}\n--- after one ping\n{after}") from None


def _data_paths() -> str:
    """Of both hosts. A host without power tells nothing."""
    told = [run("ip", "netns", "exec", NAMESPACE, "ip", "neigh", check=False)]
    for host in (HERE, HOST2):
        try:
            told.append(host.data_path())
        except (OSError, subprocess.CalledProcessError) as error:
            told.append(f"--- {host.name or 'first host'}: {error}")
    return "\n".join(told)


class Pings:
    """``with Pings(address) as pings: ...; pings.gap`` is the longest time without an answer, in seconds."""

    def __init__(self, address: str) -> None:
        self._command = ["ip", "netns", "exec", NAMESPACE, "ping", "-n", "-D", "-i", str(INTERVAL), address]
        self._address = address
        self.gap = 0.0

    def __enter__(self) -> Pings:
        self._began = time.time()
        self._ping = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            until_it_answers(self._address)
        ended = time.time()
        self._ping.send_signal(signal.SIGINT)
        told, _ = self._ping.communicate(timeout=30)
        times = [float(found) for found in _ANSWER.findall(told)]
        self.gap = max(b - a - INTERVAL for a, b in zip([self._began, *times], [*times, ended], strict=True))
