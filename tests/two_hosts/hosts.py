"""The two hosts: what of a guest is left there, and the processes that a test kills."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.process import wait_for
from tests.two_hosts.cloud import STACK_DIR

LOCAL = pathlib.Path(__file__).resolve().parents[2] / "devstack" / "local"

_OF_TRUNKS = ("tpi-", "spi-")       # the ends on br-int of what joins it with the bridges of trunks


def run(*command: str | os.PathLike[str], check: bool = True) -> str:
    """The output of a command."""
    return subprocess.run(command, capture_output=True, text=True, check=check).stdout


@dataclass(frozen=True)
class HostFiles:
    """Where the things of one host are. ``prefix`` runs a command in its network namespace."""

    name: str
    compute: str            # the name of its nova-lite-compute among the stack's daemons
    libvirt: pathlib.Path
    instances: pathlib.Path
    switch: pathlib.Path
    prefix: tuple[str, ...] = ()

    def left(self) -> list[str]:
        """What guests have left here."""
        switch = self._vsctl("list-br").split()
        found = {
            "domain": self._virsh("list", "--all", "--name").split(),
            "tap": self._guests_taps(),
            "bridge": [name for name in switch if name.startswith("tbr-")],
            "port": [name for name in self._vsctl("list-ports", "br-int").split()
                     if name.startswith(_OF_TRUNKS) or (name.startswith("tap") and self._is_guests(name))],
            "file": [path.name for path in self.instances.glob("*") if not path.name.startswith("_base")],
        }
        return [f"{self.name}: {what} {one}" for what, names in found.items() for one in names]

    def data_path(self) -> str:
        """The way of packets to the guests of this host, for the message of a test that failed."""
        control = self.switch / "vswitchd.ctl"
        told = [run(*self.prefix, "ip", "-s", "link", "show", "type", "tun", check=False),
                self._vsctl("--columns=name,tag", "list", "Port"),
                self._vsctl("--columns=name,ofport,ifindex,link_state,external_ids", "list", "Interface")]
        for bridge in ("br-int", "br-ex"):
            told += [run("ovs-appctl", "-t", control, "fdb/show", bridge, check=False),
                     run("ovs-ofctl", "dump-ports", f"{self.switch / bridge}.mgmt", check=False)]
        told += [run("ovs-appctl", "-t", control, "dpctl/dump-conntrack", check=False)]
        for guest in self._virsh("list", "--name").split():
            told += [self._virsh("qemu-monitor-command", guest, "--hmp", what) for what in ("info status", "info network")]
        return "\n".join([f"--- {self.name or 'first host'}", *told])

    def slow_down(self, server: str) -> None:
        """Live migrations of a guest from here take their time, before the guest goes on and after: disk and memory are copied
        with so many MiB a second."""
        self._virsh("migrate-setspeed", server, "4")
        self._virsh("migrate-setspeed", server, "2", "--postcopy")

    def unplug(self, device: str) -> None:
        """Take a tap from its bridge."""
        self._vsctl("del-port", device)

    def _virsh(self, *arguments: str) -> str:
        uri = f"qemu+unix:///system?socket={self.libvirt / 'run' / 'libvirt-sock'}"
        return run("virsh", "-q", "-c", uri, *arguments)

    def log(self) -> str:
        """Of its nova-lite-compute."""
        return (STACK_DIR / "log" / f"{self.compute}.log").read_text(errors="replace")

    def _guests_taps(self) -> list[str]:
        """Those of DHCP agents are on the switch as internal ports, or in other namespaces: they are none of them."""
        shown = run(*self.prefix, "ip", "-o", "-d", "link", "show", "type", "tun").splitlines()
        return [name for name in (line.split(":")[1].strip() for line in shown) if name.startswith("tap")]

    def _is_guests(self, device: str) -> bool:
        """DHCP agents have taps, too."""
        return bool(self._vsctl("--if-exists", "get", "Interface", device, "external_ids:vm-uuid").strip())

    def _vsctl(self, *arguments: str) -> str:
        return run("ovs-vsctl", f"--db=unix:{self.switch / 'db.sock'}", *arguments)


HERE = HostFiles("", "nova-lite-compute", STACK_DIR / "libvirt", STACK_DIR / "data" / "nova_lite" / "instances",
                 STACK_DIR / "run" / "ovs")
HOST2 = HostFiles("host2", "nova-lite-compute-host2", STACK_DIR / "host2" / "libvirt",
                  STACK_DIR / "host2" / "nova_lite" / "instances", STACK_DIR / "host2" / "ovs",
                  ("ip", "netns", "exec", "host2"))


def files_of(host: str) -> HostFiles:
    """Those of the host of this name."""
    return HOST2 if host == HOST2.name else HERE


@dataclass(frozen=True)
class _Killed:
    """How a daemon was started."""

    command: list[str]
    environment: dict[str, str]
    directory: str


_killed: dict[str, _Killed] = {}
_off: list[str] = []        # hosts without power


def until_agents_work() -> None:
    """Neutron's agents for Open vSwitch have begun a new round each. The death of the broker may stop an agent for two minutes.
    When it goes on, it takes from the bridge the tap of a port that had left and has come back meanwhile."""
    logs = list((STACK_DIR / "log").glob("*ovs-agent.log"))
    begun = {path: path.stat().st_size for path in logs}

    def works(path: pathlib.Path) -> bool:
        with path.open("rb") as log:
            log.seek(begun[path])
            return bool(re.search(rb"rpc_loop - iteration:\d+ started", log.read()))
    wait_for("Neutron's agents", lambda: all(map(works, logs)), 300, 1)


def kill(daemon: str) -> None:
    """End one of the stack's daemons with all its processes, as kill -9 does."""
    pid = int((STACK_DIR / "run" / f"{daemon}.pid").read_text().split()[0])
    process = pathlib.Path("/proc", str(pid))
    command, variables = (process.joinpath(name).read_text().split("\0")[:-1] for name in ("cmdline", "environ"))
    _killed[daemon] = _Killed(command, dict(pair.split("=", 1) for pair in variables), os.readlink(process / "cwd"))
    os.killpg(pid, signal.SIGKILL)
    wait_for(f"the end of {daemon}", lambda: not _members(pid), 20)


def _members(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _parent, of = path.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(int(path.parent.name))
    return found


def mend() -> None:
    """Start again what was killed, as systemd would; power for the host that has none."""
    if _off:
        power("on")
    for daemon in list(_killed):
        revive(daemon)


def revive(daemon: str) -> None:
    """Start again one that was killed."""
    process = _killed.pop(daemon)
    prefix = HOST2.prefix if daemon == HOST2.compute else ()
    with (STACK_DIR / "log" / f"{daemon}.log").open("ab") as log:
        began = subprocess.Popen([*prefix, *process.command], env=process.environment, cwd=process.directory,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    since = pathlib.Path(f"/proc/{began.pid}/stat").read_text().rpartition(")")[2].split()[19]
    (STACK_DIR / "run" / f"{daemon}.pid").write_text(f"{began.pid} {since}\n")


@contextlib.contextmanager
def options(text: str) -> Iterator[None]:
    """Both hosts have more options, as an operator would write them."""
    file = STACK_DIR / "etc" / "nova_lite" / "local.conf"
    before = file.read_text()
    try:
        file.write_text(f"{before}\n{text}\n")
        _start_anew()
        yield
    finally:
        file.write_text(before)
        _start_anew()


@contextlib.contextmanager
def userfaultfd() -> Iterator[None]:
    """QEMU, which is not root's here, may take in memory after a guest has gone on: the kernel of both hosts allows it."""
    file = pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd")
    before = file.read_text()
    file.write_text("1")
    try:
        yield
    finally:
        file.write_text(before)


def _start_anew() -> None:
    for host in (HERE, HOST2):
        kill(host.compute)
    mend()


def power(state: str) -> None:
    """Of the second host: off or on."""
    _off[:] = [HOST2.name] if state == "off" else []
    run(LOCAL / "host2.sh", state)
