"""Two libvirt hosts on one machine: each a network namespace with its own libvirtd, hostname and nova-lite-compute.

Around them stand three things of this file's own making. A management bridge in the machine's namespace: broker and migration
traffic. A switch in a third namespace: it joins the tenant bridges of both hosts, so that a guest keeps its network when it
moves, and tests stand there when they ping or log in. The rest of the cloud runs where the test runs, as in ``Services``.
"""
from __future__ import annotations

import os
import pathlib
import pwd
import re
import signal
import subprocess
import tempfile

from nova_lite import conf as conf_module
from nova_lite.db import networks
from nova_lite.db.core import Database
from nova_lite.virt.libvirt.local_daemon import LocalDaemon
from tests.libvirt_host import give_capabilities, keep_capabilities
from tests.support.certificates import Authority
from tests.support.cloud import Services, _ini
from tests.support.engines import RabbitMQ
from tests.support.process import BIN, Process, wait_for

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
       "LogLevel=ERROR", "-o", "ConnectTimeout=5")
_PING_INTERVAL = 0.1


def run(*command: str | os.PathLike[str], given: str | None = None, check: bool = True, timeout: float = 60) -> str:
    """A command's output; AssertionError with its error output when it fails."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=timeout)
    assert not check or done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    return done.stdout


def gateway() -> str:
    """The address that this machine has on the management network of this process's :class:`TwoHosts`."""
    return f"10.{100 + os.getpid() % 100}.7.1"


class Hypervisor:
    """One host. ``state`` is short, since a socket's path has 107 characters at most."""

    def __init__(self, name: str, netns: str, state: pathlib.Path, address: str) -> None:
        self.name, self.netns, self.state, self.address = name, netns, state, address
        self.daemon = LocalDaemon(state / "libvirt", name, netns)
        self.instances = state / "instances"

    @property
    def uri(self) -> str:
        return self.daemon.uri

    def virsh(self, *arguments: str, check: bool = True) -> str:
        return run("virsh", "-q", "-c", self.uri, *arguments, check=check).strip()

    def guests(self) -> dict[str, str]:
        """uuid -> state (running, paused, shut off ...) of all domains."""
        return {uuid: self.virsh("domstate", uuid, check=False) for uuid in self.virsh("list", "--all", "--uuid").split()}

    def files(self, server_id: str) -> list[str]:
        """The names of a guest's files; none when its directory is not there."""
        directory = self.instances / server_id
        return sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []

    def taps(self) -> list[str]:
        """The guests' network devices."""
        return re.findall(r"^\d+: (tap[^:@]+)", run("ip", "-n", self.netns, "-o", "link"), re.MULTILINE)

    def filters(self) -> list[str]:
        """The guests' network devices for which there are rules of what they may send and get."""
        listed = run("ip", "netns", "exec", self.netns, "nft", "list", "chains")
        return sorted(set(re.findall(r"^\s*chain (?:to-|from-)?(tap\S+)", listed, re.MULTILINE)))

    def left(self) -> dict[str, object]:
        """What a host without guests must not have; {} when it has nothing of it."""
        directories = [p.name for p in self.instances.glob("*-*")] if self.instances.is_dir() else []
        found = {"guests": self.guests(), "taps": self.taps(), "filters": self.filters(), "files": directories,
                 "secrets": self.virsh("secret-list").splitlines()}
        return {what: value for what, value in found.items() if value}


class Pings:
    """A ping of a guest from the switch, ten a second; ``stop`` says how many seconds in a row had no answer."""

    def __init__(self, netns: str, address: str, log: pathlib.Path) -> None:
        self._process = Process(f"ping-{address}", ["ip", "netns", "exec", netns, "ping", "-n", "-i", str(_PING_INTERVAL),
                                                    address], log).start()

    def stop(self) -> float:
        self._process.send(signal.SIGINT)
        assert self._process.popen is not None
        self._process.popen.wait(10)
        seen = [int(n) for n in re.findall(r"icmp_seq=(\d+) ttl", self._process.log.read_text())]
        assert seen, self._process.tail()
        gaps = [after - before - 1 for before, after in zip(seen, seen[1:], strict=False)]
        return max(gaps, default=0) * _PING_INTERVAL


class TwoHosts(Services):
    """``Services`` with two libvirt hosts in place of its one compute: processes compute-a and compute-b.

    ``shared``: both hosts have the same ``instances`` directory, as with NFS. ``tls``: no host lets a guest go or takes one but
    by TLS, with certificates of both sides. ``options`` go to all five services.
    """

    def __init__(self, directory: pathlib.Path, rabbit: RabbitMQ, database_url: str, shared: bool = False,
                 tls: bool = False, **options: object) -> None:
        number = os.getpid() % 1000
        net = f"10.{100 + number % 100}"
        self.prefix, self.switch = f"nt{number}", f"nt{number}s"
        self.management, self._tenant = f"{self.prefix}m", f"{net}.8"
        self.short = pathlib.Path(tempfile.mkdtemp(prefix="nl2-"))
        self.short.chmod(0o711)     # QEMU's own user passes through
        self.hosts = {letter: Hypervisor(f"host-{letter}", f"{self.prefix}{letter}", self.short / letter, f"{net}.7.{last}")
                      for letter, last in (("a", 2), ("b", 3))}
        self.gateway = gateway()
        super().__init__(directory, rabbit.url, database_url, image__local_path=directory / "images",
                         volume__local_path=self.short / "volumes", network__driver="bridge",
                         network__bridge_prefix=self.prefix, compute__driver="libvirt",
                         libvirt__live_migration_with_native_tls=tls, **{"compute__shutdown_timeout": 30, **options})
        del self.processes["compute"]
        if tls:
            self._demand_tls()
        for letter, host in self.hosts.items():
            host.state.mkdir()
            if shared:
                (self.short / "instances").mkdir(exist_ok=True)
                host.instances.symlink_to(self.short / "instances")
            own = directory / f"compute-{letter}.conf"
            own.write_text(_ini({
                "transport_url": rabbit.url.replace("127.0.0.1", self.gateway), "host": host.name, "state_path": host.state,
                "my_ip": host.address, "libvirt__connection_uri": host.uri, "libvirt__live_migration_uri": host.uri}))
            self.processes[f"compute-{letter}"] = Process(f"compute-{letter}", [
                "ip", "netns", "exec", host.netns, str(BIN / "nova-lite-compute"), "--config-file", str(self.config),
                "--config-file", str(own)], directory, self.env)

    @property
    def a(self) -> Hypervisor:
        return self.hosts["a"]

    @property
    def b(self) -> Hypervisor:
        return self.hosts["b"]

    def start(self, hosts: int = 2) -> TwoHosts:
        """Networks, both libvirtd, then the services."""
        self._remove_networks()
        self._make_networks()
        for host in self.hosts.values():
            give_capabilities(host.state / "libvirt")
            host.daemon.start()
        super().start(hosts)
        self._make_tenant_network()
        self.client().let_in("icmp")
        self.ssh_rule = self.client().let_in("tcp", 22, 22)
        return self

    def where(self, server_id: str) -> dict[str, str]:
        """host's letter -> state of the guest, for each hypervisor that knows it: ask the hypervisors, not the API."""
        return {letter: found[server_id] for letter, host in self.hosts.items() if server_id in (found := host.guests())}

    def host_of(self, server_id: str) -> Hypervisor:
        """The host that the API names."""
        name = self.client().server(server_id)["OS-EXT-SRV-ATTR:host"]
        return next(h for h in self.hosts.values() if h.name == name)

    def other(self, host: Hypervisor) -> Hypervisor:
        """The host that ``host`` is not."""
        return self.b if host is self.a else self.a

    def ssh(self, key: pathlib.Path, address: str, command: str, timeout: float = 60) -> str:
        """What a command in a guest says; "" when the guest is not reached."""
        return run("ip", "netns", "exec", self.switch, *SSH, "-i", key, f"root@{address}", command, check=False,
                   timeout=timeout).strip()

    def wait_ssh(self, key: pathlib.Path, address: str, command: str = "hostname", timeout: float = 240) -> str:
        """The same, as soon as the guest can be reached."""
        return str(wait_for(f"ssh to {address}", lambda: self.ssh(key, address, command), timeout, 1))

    def ping(self, address: str) -> Pings:
        """Begin to ping a guest."""
        return Pings(self.switch, address, self.directory)

    def stop(self) -> None:
        """End services, guests and daemons, and take the networks down."""
        try:
            super().stop()
        finally:
            for host in self.hosts.values():
                host.daemon.stop()
                keep_capabilities(host.state / "libvirt")
            self._remove_networks()
            run("rm", "-rf", self.short)

    def _demand_tls(self) -> None:
        pki = Authority(self.short / "pki", pwd.getpwnam("libvirt-qemu").pw_uid)
        addresses = [host.address for host in self.hosts.values()]
        pki.sign("server", *addresses)
        pki.sign("client", *addresses, client=True)
        for host in self.hosts.values():
            host.daemon.qemu_options |= {"migrate_tls_x509_cert_dir": str(pki.directory), "migrate_tls_x509_verify": 1,
                                         "migrate_tls_force": 1}

    # networks -----------------------------------------------------------------------------------------------------------
    def _make_networks(self) -> None:
        run("ip", "link", "add", self.management, "type", "bridge", "forward_delay", "0")
        run("ip", "address", "add", f"{self.gateway}/24", "dev", self.management)
        run("ip", "link", "set", self.management, "up")
        for host in self.hosts.values():
            run("ip", "netns", "add", host.netns)
            self._ip(host.netns, "link", "set", "lo", "up")
            run("ip", "link", "add", f"{host.netns}m", "type", "veth", "peer", "name", "mgmt", "netns", host.netns)
            run("ip", "link", "set", f"{host.netns}m", "master", self.management, "up")
            self._ip(host.netns, "address", "add", f"{host.address}/24", "dev", "mgmt")
            self._ip(host.netns, "link", "set", "mgmt", "up")
            self._ip(host.netns, "route", "add", "default", "via", self.gateway)
        run("ip", "netns", "add", self.switch)
        self._ip(self.switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        self._ip(self.switch, "address", "add", f"{self._tenant}.250/24", "dev", "br0")
        self._ip(self.switch, "link", "set", "br0", "up")
        # each host has the gateway's address and a DHCP server for its own guests: they must not hear of each other
        gateway = f"{self._tenant}.1"
        run("ip", "netns", "exec", self.switch, "nft", "-f", "-", given=f"""
            table bridge apart {{
                chain forward {{
                    type filter hook forward priority 0; policy accept;
                    arp saddr ip {gateway} drop
                    arp daddr ip {gateway} drop
                    udp dport {{ 67, 68 }} drop
                }}
            }}
            """)

    def _make_tenant_network(self) -> None:
        self.manage("network", "create", "--name", "private", "--cidr", f"{self._tenant}.0/24")
        bridge = self._bridge()
        for letter, host in self.hosts.items():
            self._ip(host.netns, "link", "add", bridge, "type", "bridge", "forward_delay", "0")
            run("ip", "-n", host.netns, "link", "add", "tenant", "type", "veth", "peer", "name", f"to-{letter}", "netns",
                self.switch)
            self._ip(host.netns, "link", "set", "tenant", "master", bridge, "up")
            self._ip(host.netns, "link", "set", bridge, "up")
            self._ip(self.switch, "link", "set", f"to-{letter}", "master", "br0", "up")

    def _bridge(self) -> str:
        """The name of the tenant network's bridge."""
        database = Database(conf_module.load([], config_files=[str(self.config)]))
        try:
            with database.read() as connection:
                return str(networks.list_networks(connection)[0]["bridge"])
        finally:
            database.dispose()

    def _remove_networks(self) -> None:
        for host in self.hosts.values():
            for pid in run("ip", "netns", "pids", host.netns, check=False).split():      # dnsmasq of the tenant network
                os.kill(int(pid), signal.SIGKILL)
            run("ip", "netns", "delete", host.netns, check=False)
            run("ip", "link", "delete", f"{host.netns}m", check=False)
        run("ip", "netns", "delete", self.switch, check=False)
        run("ip", "link", "delete", self.management, check=False)

    @staticmethod
    def _ip(netns: str, *arguments: str) -> None:
        run("ip", "-n", netns, *arguments)
