"""The taps of guests on Open vSwitch. The host makes them, not libvirt, so Neutron's agent can wire a nic before its guest
starts.

An interface in Open vSwitch has the ids that Neutron's agents look for, and the name of the host that made it. By that name a
host finds what a killed daemon has left.
"""
from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Sequence

from oslo_log import log

from nova_lite.network.host import check_name, run
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt.libvirt import guest_config

LOG = log.getLogger(__name__)
_DEVICES = pathlib.Path("/sys/class/net")
_TRUNK = "tbr-"         # Neutron's prefix of the bridge of a trunk; Neutron waits for the host to make that bridge
_ALIAS = "nova_lite-server"     # the first word of the alias of a tap; the other one is the server
_MAKER, _SERVER = "nova_lite-host", "vm-uuid"
_VSCTL = ("ovs-vsctl", "--timeout=10")


def is_made_here(vif: VIF) -> bool:
    """Whether the host makes the tap of a nic, and not libvirt."""
    return vif.type == "ovs"


class Taps:
    """Each method can be run twice. All raise VirtDriverError when a command fails."""

    def __init__(self, host: str, netns: str = "") -> None:
        """``netns``: where libvirt makes its own taps, if not here."""
        self._host, self._netns = host, netns

    def make(self, instance: Instance, vifs: Sequence[VIF]) -> None:
        """Make the taps of a guest that starts or arrives here; existing taps stay."""
        for vif in vifs:
            if is_made_here(vif):
                self._make(instance, vif)

    def make_anew(self, instance: Instance, vifs: Sequence[VIF]) -> None:
        """New taps on Open vSwitch, in place of those that are there. OVN says that a port is wired only once for each tap."""
        made_here = [vif for vif in vifs if is_made_here(vif)]
        self.remove(made_here)
        self.make(instance, made_here)

    def remove(self, vifs: Sequence[VIF]) -> None:
        """The taps of a guest that has ended, and those that a killed libvirtd has left."""
        for vif in vifs:
            if is_made_here(vif):
                self._remove(check_name(vif.details["bridge"]), check_name(vif.devname))
            elif self._netns or (_DEVICES / vif.devname).exists():
                run("ip", *(["-n", self._netns] if self._netns else []), "link", "delete", "dev", vif.devname, check=False)

    def unplugged(self) -> set[str]:
        """The servers that have a tap without a bridge. The tap's alias says whose it is."""
        servers: dict[str, str] = {}
        for path in _DEVICES.glob("*/ifalias"):
            with contextlib.suppress(OSError):      # it goes at this moment
                kind, _, server = path.read_text().strip().partition(" ")
                if kind == _ALIAS:
                    servers[path.parent.name] = server
        if not servers:
            return set()
        done = run(*_VSCTL, "--format=json", "--columns=name", "list", "Interface", check=False)
        if done.returncode:
            LOG.warning("Open vSwitch does not list its interfaces: %s", done.stderr.strip())
            return set()
        for [name] in json.loads(done.stdout)["data"]:
            servers.pop(name, None)
        return set(servers.values())

    def kept_for(self) -> set[str]:
        """The servers that this host has made taps for."""
        return {server for server, _, _ in self._found()}

    def forget(self, instance_uuid: str) -> None:
        """Remove all taps of a server, whose nics need not be known."""
        for server, bridge, device in self._found():
            if server == instance_uuid:
                self._remove(bridge, device)

    def _make(self, instance: Instance, vif: VIF) -> None:
        device, bridge = check_name(vif.devname), check_name(vif.details["bridge"])
        if not (_DEVICES / device).exists():
            several = guest_config.nic(instance, vif).queues > 1
            run("ip", "tuntap", "add", "dev", device, "mode", "tap", *(["multi_queue"] if several else []))
        run("ip", "link", "set", "dev", device, "alias", f"{_ALIAS} {instance.uuid}")
        # a tap with the guest's own address would keep the guest's packets from the bridge
        run("ip", "link", "set", "dev", device, "address", "fe" + vif.mac_address[2:],
            *(["mtu", str(vif.mtu)] if vif.mtu else []), "up")
        ids = {"iface-id": vif.id, "attached-mac": vif.mac_address, "iface-status": "active", _SERVER: instance.uuid,
               _MAKER: self._host}
        run(*_VSCTL, *self._trunk_bridge(bridge, vif), "--", "--may-exist", "add-port", bridge, device,
            "--", "set", "Interface", device, *(f'external_ids:{name}="{value}"' for name, value in ids.items()),
            *([f"mtu_request={vif.mtu}"] if vif.mtu else []))

    @staticmethod
    def _trunk_bridge(bridge: str, vif: VIF) -> list[str]:
        if not bridge.startswith(_TRUNK):
            return []
        datapath = str(vif.details.get("datapath_type") or "system")
        return ["--", "--may-exist", "add-br", bridge, "--", "set", "Bridge", bridge, f"datapath_type={check_name(datapath)}"]

    @staticmethod
    def _remove(bridge: str, device: str) -> None:
        """The tap goes first: it is found by its port."""
        if (_DEVICES / device).exists():
            run("ip", "link", "delete", "dev", device, check=False)     # libvirt may take its own tap away at this moment
        if not shutil.which(_VSCTL[0]):
            return
        # a name without a tap carries nothing, so it is no reason to keep the server
        done = run(*_VSCTL, "--if-exists", "del-port", device,
                   *(["--", "--if-exists", "del-br", bridge] if bridge.startswith(_TRUNK) else []), check=False)
        if done.returncode:
            LOG.warning("ovs-vsctl del-port %s: %s", device, done.stderr.strip())

    def _found(self) -> list[tuple[str, str, str]]:
        """(server, bridge, device) of each tap that this host has made."""
        if not shutil.which(_VSCTL[0]):
            return []
        done = run(*_VSCTL, "--format=json", "--columns=name,external_ids", "find", "Interface",
                   f'external_ids:{_MAKER}="{self._host}"', check=False)
        if done.returncode:
            LOG.warning("Open vSwitch does not list its taps: %s", done.stderr.strip())
            return []
        found = []
        for name, (_, ids) in json.loads(done.stdout)["data"]:
            bridge = run(*_VSCTL, "iface-to-br", check_name(name), check=False).stdout.strip()
            found.append((str(dict(ids).get(_SERVER, "")), bridge, name))
        return found
