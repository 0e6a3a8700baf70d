"""The embedded network: Linux bridges with addresses, DHCP and the way to the metadata service, on each compute host."""
from __future__ import annotations

import ipaddress
import pathlib
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.embedded.network.bridges import Bridges
from nova_lite.embedded.network.dhcp import Dnsmasq, Lease
from nova_lite.embedded.network.filter import Filter, Nic
from nova_lite.embedded.network.group_filter import Members
from nova_lite.network import default_group, ipam
from nova_lite.network.base import FloatingIPsAPI, GroupsAPI, PortStore, Requests, Wanted
from nova_lite.network.default_group import NAME, DefaultGroup
from nova_lite.network.group_rules import Rule
from nova_lite.network.host import NetworkHost, check_name
from nova_lite.network.no_floating_ips import NoFloatingIPs
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FixedIP, NetworkRequest, PortState

LOG = log.getLogger(__name__)
_Rules = tuple[list[Nic], Members]


class BridgeNetwork:
    """``network.base.NetworkAPI`` on the PortStore's rows.

    A host has the bridges of those networks on which it has guests. They stay until the network is deleted: an empty bridge
    costs nothing and the next guest finds it ready.
    """

    def __init__(self, conf: cfg.ConfigOpts, store: PortStore | None) -> None:
        if store is None:
            raise exception.ConfigError(reason="[network] driver = bridge needs a store of ports")
        self.groups: GroupsAPI = store.groups or DefaultGroup()
        self.floating_ips: FloatingIPsAPI = NoFloatingIPs()
        self._conf, self._store = conf, store
        self._at = NetworkHost(conf.network.netns)
        self._filter = Filter(self._at)
        self._dhcp = pathlib.Path(conf.state_path).absolute() / "dhcp"
        self._host = conf.host
        self._lock = threading.Lock()
        self._ready: set[str] = set()      # bridges of this process
        self._applied: dict[str, _Rules] = {}      # the last data of all nics of a bridge that the filter got

    # what the API and the build ask -----------------------------------------------------------------------------------
    def validate(self, context: RequestContext, requests: Requests, count: int,
                 security_groups: Sequence[str] = ("default",), may_use_external: bool = False,
                 server: Instance | None = None) -> Wanted:
        """See NetworkAPI."""
        project = server.project_id if server else context.project_id or ""
        self._store.check_requests(project, _primitives(requests), count)
        if list(security_groups) == [NAME] or self._store.groups is None:
            return Wanted(requests, self._on_ports(requests, default_group.names(project, security_groups)))
        chosen = self._store.groups.choose(project, security_groups)
        names = self._on_ports(requests, [name for _, name in chosen])
        if requests == "none":
            return Wanted(requests, names)
        wanted = [NetworkRequest.from_primitive(request) for request in _primitives(requests)]
        for request in wanted:
            request.security_groups = [group for group, _ in chosen]
        return Wanted(wanted, names)

    def _on_ports(self, requests: Requests, names: list[str]) -> list[str]:
        """The names of the groups that the ports will be in; ``names`` are those of new ports."""
        asked = _primitives(requests)
        brought = [request["port_id"] for request in asked if request.get("port_id")]
        theirs = self._store.groups.of_ports(brought) if brought and self._store.groups is not None else []
        return list(dict.fromkeys([*(names if len(brought) < len(asked) else ()), *theirs]))

    def list_networks(self, context: RequestContext) -> list[dict[str, Any]]:
        """See NetworkAPI; an admin sees the networks of all projects."""
        found = self._store.list_networks(None if context.is_admin else context.project_id)
        return [{"id": n["uuid"], "label": n["name"], "cidr": n["cidr"]} for n in found]

    def allocate(self, context: RequestContext, instance: Instance, requests: Requests, host: str) -> list[VIF]:
        """See NetworkAPI."""
        wanted = _primitives(requests)
        if not wanted:
            return []
        ports = self._store.allocate_ports(instance.uuid, instance.project_id, host, wanted)
        return [make_vif(port, request.get("tag")) for port, request in zip(ports, wanted, strict=False)]

    def deallocate(self, context: RequestContext, instance: Instance) -> None:
        """See NetworkAPI."""
        self._store.release_ports(instance.uuid)

    def attach(self, context: RequestContext, instance: Instance, request: NetworkRequest, host: str) -> VIF:
        """See NetworkAPI."""
        ports = self._store.allocate_ports(instance.uuid, instance.project_id, host, [request.to_primitive()])
        if not ports:
            raise exception.InterfaceAttachFailedNoNetwork(project_id=instance.project_id)
        vif = make_vif(ports[0], request.tag)
        vif.key = request.key
        return vif

    def detach(self, context: RequestContext, instance: Instance, vif: VIF) -> None:
        """See NetworkAPI."""
        self._store.release_port(instance.uuid, vif.id, None)

    def abandon(self, context: RequestContext, instance: Instance, request: NetworkRequest) -> None:
        """See NetworkAPI."""
        self._store.release_port(instance.uuid, request.port_id, request.key)

    def add_address(self, context: RequestContext, instance: Instance, network_id: str) -> None:
        """There is none to be had."""
        raise exception.Invalid("The embedded network gives each nic one address.")

    def remove_address(self, context: RequestContext, instance: Instance, address: str) -> None:
        """There is none to spare."""
        raise exception.Invalid("The embedded network gives each nic one address.")

    def refresh(self, context: RequestContext, instance: Instance) -> list[VIF]:
        """Nothing changes by itself here."""
        return instance.network_info

    def move(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """A bridge has the same name on every host."""
        self._store.move_ports(instance.uuid, host)
        return instance.network_info

    def expect(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """The same."""
        return instance.network_info

    def announce(self, context: RequestContext, instance: Instance, host: str) -> None:
        """Bridges need no wiring."""

    def forget(self, context: RequestContext, instance: Instance, host: str) -> None:
        """Nothing was written down."""

    def host_ports(self, context: RequestContext, host: str) -> Mapping[str, Mapping[str, PortState]]:
        """Nothing: hosts ask for what is in force."""
        return {}

    def port_states(self, context: RequestContext, port_ids: Sequence[str]) -> dict[str, str]:
        """A port is wired as soon as its guest is there."""
        return dict.fromkeys(port_ids, "ACTIVE")

    def servers_with_ports(self, context: RequestContext, uuids: Sequence[str]) -> set[str]:
        """None: the transaction that deletes a server takes its ports along."""
        return set()

    # what a compute host does -----------------------------------------------------------------------------------------
    def check_host(self) -> None:
        """See NetworkAPI: the host has to be able to filter."""
        self._at.prepare()
        self._filter.check()

    def init_host(self, host: str) -> None:
        """Make bridges, DHCP and filters of every network with guests here, as after a reboot; remove those of deleted
        networks. A network that fails does not stop the others: the next guest that is plugged into it gets the error."""
        self._host = host
        with self._lock:
            self._at.prepare()
            self._ready.clear()
            self._applied.clear()
            networks = {n["bridge"]: n for n in self._store.list_networks(None)}
            self._remove_deleted()
            ports = self._ports_by_bridge()
            for bridge in ports.keys() | (self._known_bridges() & networks.keys()):
                its_ports = ports.get(bridge, [])
                try:
                    if its_ports:
                        self._sync(networks[bridge], its_ports)
                    wanted = self._rules(its_ports)
                    self._filter.reset(bridge, *wanted)
                    self._applied[bridge] = wanted
                except (exception.NovaLiteError, OSError) as error:
                    LOG.error("network of bridge %s: %s", bridge, error)
                except Exception:
                    LOG.exception("network of bridge %s", bridge)

    def _remove_deleted(self) -> None:
        """Remove the bridges of deleted networks: another network may use their addresses. A bridge that cannot be removed
        stays for now; a network that needs its addresses is refused."""
        for left in self._known_bridges() - {n["bridge"] for n in self._store.list_networks(None)}:
            LOG.info("network of bridge %s is gone: removing it", left)
            try:
                self._remove(left)
            except (exception.NovaLiteError, OSError) as error:
                LOG.error("bridge %s of a deleted network is not removed: %s", left, error)

    def plug(self, instance: Instance, vif: VIF) -> None:
        """See NetworkAPI."""
        if vif.type == "null":
            return
        with self._lock:
            ports = self._ports_by_bridge().get(vif.details["bridge"], [])
            if vif.id not in (p["uuid"] for p in ports):        # a guest that is on its way to this host
                ports += [p for p in self._store.list_server_ports(instance.uuid) if p["uuid"] == vif.id]
            port = next((p for p in ports if p["uuid"] == vif.id), None)
            if port is None:
                raise exception.PortNotFound(port_id=vif.id)
            self._sync(port["network"], ports)
            self._applied.pop(port["network"]["bridge"], None)
            self._filter.put(port["network"]["bridge"], *self._rules([port]))

    def unplug(self, instance: Instance, vif: VIF) -> None:
        """See NetworkAPI."""
        self._at.delete_interface(vif.devname)
        bridge = vif.details.get("bridge", "")
        with self._lock:
            if bridge not in self._known_bridges():
                return
            self._applied.pop(bridge, None)
            self._filter.drop(bridge, vif.devname)
            if not self._at.exists(bridge):
                return
            ports = self._ports_by_bridge().get(bridge, [])
            network = next((p["network"] for p in ports), None)
            if network is not None:
                self._dnsmasq(bridge).sync(network, _leases(p for p in ports if p["uuid"] != vif.id))

    def refresh_filters(self) -> None:
        """See NetworkAPI. A guest that is on its way to this host gets its rules when it is plugged."""
        with self._lock:
            for bridge, ports in self._ports_by_bridge().items():
                if self._at.exists(bridge):
                    self._bring_up_to_date(bridge, ports)

    def _bring_up_to_date(self, bridge: str, ports: list[dict[str, Any]]) -> None:
        """A bridge that fails does not stop the others; the next round tries again."""
        try:
            filtered = self._filter.interfaces(bridge)
            if any(nic.interface not in filtered for nic in self._applied.get(bridge, ((), {}))[0]):
                LOG.warning("the rules of bridge %s were missing (was nftables flushed?): making them again", bridge)
                del self._applied[bridge]
            here = filtered | self._at.attached(bridge)         # a guest that is not plugged gets its rules when it is
            now = self._rules([port for port in ports if make_vif(port).devname in here])
            if now != self._applied.get(bridge):
                LOG.debug("security groups on bridge %s have changed", bridge)
                self._filter.put(bridge, *now)
                self._applied[bridge] = now
            self._sync(ports[0]["network"], ports)      # last: a dnsmasq that does not start holds up no security group
        except exception.NovaLiteError as error:
            LOG.error("bridge %s is not up to date: %s", bridge, error)
        except Exception:
            LOG.exception("bridge %s is not up to date", bridge)

    def _rules(self, ports: list[dict[str, Any]]) -> _Rules:
        """The nics of these ports, all on one network, and the members of the groups that their rules name."""
        groups = sorted({group for port in ports for group in port["security_groups"]})
        known = self._store.rules_for(groups) if groups else {"rules": {}, "members": {}}
        network = ports[0]["network_uuid"] if ports else ""
        rules = {group: tuple(_rule(row) for row in rows) for group, rows in known["rules"].items()}
        nics = [Nic(make_vif(port).devname, port["mac_address"], port["address"],
                    tuple(rule for group in port["security_groups"] for rule in rules[group])) for port in ports]
        members = {group: [address for where, address in some if where == network and _is_usable(address, f"group {group}")]
                   for group, some in known["members"].items()}
        return nics, members

    def remove_host(self) -> None:
        """Remove every bridge and daemon that this driver made here. No guest may be left on them."""
        with self._lock:
            for bridge in self._known_bridges():
                self._remove(bridge)

    def _sync(self, network: dict[str, Any], ports: list[dict[str, Any]]) -> None:
        """The bridge with its rules, and its dnsmasq: what is missing is made again."""
        bridge, bridges = network["bridge"], Bridges(self._conf, self._at)
        if bridge not in self._ready or not self._at.exists(bridge) or not bridges.has_rules(bridge):
            self._remove_deleted()
            bridges.ensure(network, self._host)
            self._ready.add(bridge)
        self._dnsmasq(bridge).sync(network, _leases(ports))

    def _remove(self, bridge: str) -> None:
        self._ready.discard(bridge)
        self._applied.pop(bridge, None)
        self._dnsmasq(bridge).stop()
        Bridges(self._conf, self._at).remove(bridge)
        self._filter.remove(bridge)
        self._dnsmasq(bridge).remove()       # last: as long as the directory is there, the bridge is known as ours

    def _dnsmasq(self, bridge: str) -> Dnsmasq:
        return Dnsmasq(self._dhcp, bridge, self._at)

    def _known_bridges(self) -> set[str]:
        """By their directories; other bridges are left alone."""
        found = set()
        for path in self._dhcp.iterdir() if self._dhcp.is_dir() else ():
            try:
                found.add(check_name(path.name))
            except exception.ConfigError as error:
                LOG.debug("%s: %s", self._dhcp, error)
        return found

    def _ports_by_bridge(self) -> dict[str, list[dict[str, Any]]]:
        ports: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for port in self._store.list_host_ports(self._host):
            if _is_usable(port["address"], f"port {port['uuid']}"):
                ports[port["network"]["bridge"]].append(port)
        return ports


def _is_usable(address: str, whose: str) -> bool:
    """False for an invalid address that an older version accepted: one such row must not stop the filters of the others."""
    if ipam.is_address(address):
        return True
    LOG.error("%s: %r is not an address: left out", whose, address)
    return False


def _primitives(requests: Requests) -> list[dict[str, Any]]:
    """The requests as the store takes them; "auto" is one that names nothing."""
    if requests == "none":
        return []
    if not requests or requests == "auto":
        return [NetworkRequest().to_primitive()]
    if isinstance(requests, str):
        raise exception.InvalidInput(reason=f"networks: {requests!r} is neither auto nor none")
    return [NetworkRequest.from_primitive(r).to_primitive() if isinstance(r, dict) else r.to_primitive() for r in requests]


def _leases(ports: Any) -> list[Lease]:
    return [Lease(p["mac_address"], p["address"], p.get("hostname") or "") for p in ports]


def _rule(row: dict[str, Any]) -> Rule:
    return Rule(row["direction"], protocol=row["protocol"], port_min=row["port_min"], port_max=row["port_max"],
                remote_cidr=row["remote_cidr"], remote_group=row["remote_group_uuid"])


def make_vif(port: dict[str, Any], tag: str | None = None) -> VIF:
    """The nic of a port (with its network), as the instance's network cache holds it."""
    network = port["network"]
    address = FixedIP(port["address"], ipaddress.ip_address(port["address"]).version, network["cidr"], network["gateway"],
                      list(network["dns"]), [{"cidr": f"{ipam.METADATA_ADDRESS}/32", "gateway": network["gateway"]}])
    return VIF(id=port["uuid"], network_id=network["uuid"], network_name=network["name"], mac_address=port["mac_address"],
               type="bridge", fixed_ips=[address], mtu=network["mtu"], details={"bridge": network["bridge"], "dhcp": True},
               preserve_on_delete=port["request_key"] is None, tag=tag)
