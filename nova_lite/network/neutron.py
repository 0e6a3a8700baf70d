"""The network of the cloud is Neutron's: ports are its, the wires between taps and networks are its agents'."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.base import FloatingIPsAPI, GroupsAPI, PortStore, Requests, Wanted
from nova_lite.network.host import NetworkHost, check_name
from nova_lite.network.neutron_addresses import Addresses
from nova_lite.network.neutron_api import Json, NeutronAPI, by_key
from nova_lite.network.neutron_floating import FloatingIPs
from nova_lite.network.neutron_groups import Groups
from nova_lite.network.neutron_moves import PortMoves, of_instance
from nova_lite.network.neutron_ports import HOST, Ports
from nova_lite.network.neutron_requests import NETWORK_FIELDS, RequestChecker, available
from nova_lite.network.neutron_views import PORT_STATE_FIELDS, SUBNET_FIELDS, make_vif, port_state_of, subnet_ids
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, NetworkRequest, PortState

LOG = log.getLogger(__name__)


class NeutronNetwork:
    """``network.base.NetworkAPI`` on Neutron. The API calls with the user's token, all others as the service user.

    A build with one nic costs one call in the API (the networks) and three on the host: the server's ports, which do not exist
    yet, their creation, and their subnets.
    """

    def __init__(self, conf: cfg.ConfigOpts, store: PortStore | None) -> None:
        self._api = NeutronAPI(conf)
        self._requests = RequestChecker(self._api)
        self._ports = Ports(conf, self._api)
        self._moves = PortMoves(self._api)
        self._addresses = Addresses(self._api)
        self.groups: GroupsAPI = Groups(self._api)
        self.floating_ips: FloatingIPsAPI = FloatingIPs(self._api)
        self._at = NetworkHost(conf.network.netns)

    # what the API and the build ask -----------------------------------------------------------------------------------
    def validate(self, context: RequestContext, requests: Requests, count: int,
                 security_groups: Sequence[str] = ("default",), may_use_external: bool = False,
                 server: Instance | None = None) -> Wanted:
        """See NetworkAPI. The quota of ports is not checked: Neutron itself refuses a port above it."""
        if isinstance(requests, str) and requests not in ("auto", "none"):
            raise exception.InvalidInput(reason=f"networks: {requests!r} is neither auto nor none")
        if isinstance(requests, list) and count > 1 and any(r.port_id or r.address for r in requests):
            raise exception.InvalidInput(reason="a port or a fixed_ip can be given to one instance only")
        return self._requests.check(context, requests, security_groups, may_use_external, server)

    def list_networks(self, context: RequestContext) -> list[dict[str, Any]]:
        """See NetworkAPI. A network of Neutron has subnets in place of one range."""
        found = self._api.list(context, "networks", fields=["id", "name"])
        return [{"id": n["id"], "label": n["name"], "cidr": None} for n in found]

    def allocate(self, context: RequestContext, instance: Instance, requests: Requests, host: str) -> list[VIF]:
        """See NetworkAPI. A failure leaves ports, which ``deallocate`` finds."""
        wanted = self._listed(context, instance, requests)
        if not wanted:
            return []
        ports = self._ports.allocate(context, instance, wanted, host)
        networks = {r.network_id: (r.network_name, r.mtu) for r in wanted if r.network_id and r.network_name is not None}
        return self._vifs(context, ports, networks, [bool(r.port_id) for r in wanted], [r.tag for r in wanted])

    def deallocate(self, context: RequestContext, instance: Instance) -> None:
        """See NetworkAPI."""
        self._ports.release(context, instance)

    def attach(self, context: RequestContext, instance: Instance, request: NetworkRequest, host: str) -> VIF:
        """See NetworkAPI."""
        port = self._ports.attach(context, instance, request, host)
        names = {request.network_id: (request.network_name, request.mtu)} if request.network_name is not None else {}
        known = {network: name for network, name in names.items() if network}
        [vif] = self._vifs(context, [port], known, [bool(request.port_id)], [request.tag])
        vif.key = request.key
        return vif

    def detach(self, context: RequestContext, instance: Instance, vif: VIF) -> None:
        """See NetworkAPI."""
        self._ports.detach(context, instance, vif.id, vif.preserve_on_delete)

    def abandon(self, context: RequestContext, instance: Instance, request: NetworkRequest) -> None:
        """See NetworkAPI."""
        self._ports.abandon(context, instance, request)

    def add_address(self, context: RequestContext, instance: Instance, network_id: str) -> None:
        """See NetworkAPI."""
        self._addresses.add(context, instance, network_id)

    def remove_address(self, context: RequestContext, instance: Instance, address: str) -> None:
        """See NetworkAPI."""
        self._addresses.remove(context, instance, address)

    def refresh(self, context: RequestContext, instance: Instance) -> list[VIF]:
        """See NetworkAPI."""
        cached = instance.network_info
        found = by_key(self._ports.of_server(context, instance), "id")
        old = [vif for vif in cached if vif.id in found]
        for vif in cached:
            if vif.id not in found:
                LOG.info("Neutron has no port %s of this server any more", vif.id, extra={"instance_uuid": instance.uuid})
        return self._now(context, [found[v.id] for v in old], old)

    def move(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """See NetworkAPI."""
        return self._moved(context, instance, self._moves.move(context, self._ports_of(context, instance), host))

    def expect(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """See NetworkAPI."""
        return self._moved(context, instance, self._moves.expect(context, self._ports_of(context, instance), host))

    def announce(self, context: RequestContext, instance: Instance, host: str) -> None:
        """See NetworkAPI."""
        self._moves.announce(context, self._ports_of(context, instance), host)

    def forget(self, context: RequestContext, instance: Instance, host: str) -> None:
        """See NetworkAPI."""
        self._moves.forget(context, self._ports_of(context, instance), host)

    def _ports_of(self, context: RequestContext, instance: Instance) -> list[Json]:
        return of_instance(self._ports.of_server(context, instance), instance)

    def _moved(self, context: RequestContext, instance: Instance, ports: Sequence[Json]) -> list[VIF]:
        before = {vif.id: vif for vif in instance.network_info}
        return self._now(context, ports, [before[port["id"]] for port in ports])

    def _now(self, context: RequestContext, ports: Sequence[Json], old: Sequence[VIF]) -> list[VIF]:
        """The nics of ports, with the attributes of the server's request. Floating IPs may have changed: the change was
        reported to the host that the server was on, which may have been dead."""
        floating = self._floating(context, [v.id for v in old])
        vifs = self._vifs(context, ports, {v.network_id: (v.network_name, v.mtu) for v in old},
                          [v.preserve_on_delete for v in old], [v.tag for v in old], floating)
        for vif, before in zip(vifs, old, strict=True):
            vif.key = before.key
        return vifs

    def _floating(self, context: RequestContext, port_ids: Sequence[str]) -> Mapping[tuple[str, str], list[str]]:
        """The floating IPs by (port id, fixed address)."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one in self._api.by_ids(context, "floatingips", port_ids, key="port_id"):
            found[one["port_id"], one["fixed_ip_address"]].append(one["floating_ip_address"])
        return found

    def host_ports(self, context: RequestContext, host: str) -> Mapping[str, Mapping[str, PortState]]:
        """See NetworkAPI. One call, and one for the floating IPs of a hundred ports."""
        ports = self._api.list(context, "ports", **{HOST: host}, fields=PORT_STATE_FIELDS)
        ports = [port for port in ports if (port.get("device_owner") or "").startswith("compute:")]
        floating = self._floating(context, [port["id"] for port in ports])
        found: dict[str, dict[str, PortState]] = defaultdict(dict)
        for port in ports:
            found[port["device_id"]][port["id"]] = port_state_of(port, floating)
        return found

    def port_states(self, context: RequestContext, port_ids: Sequence[str]) -> dict[str, str]:
        """See NetworkAPI."""
        return {p["id"]: p["status"] for p in self._api.by_ids(context, "ports", port_ids, fields=["id", "status"])}

    def servers_with_ports(self, context: RequestContext, uuids: Sequence[str]) -> set[str]:
        """See NetworkAPI."""
        return {p["device_id"] for p in self._api.by_ids(context, "ports", uuids, key="device_id", fields=["device_id"])}

    def _listed(self, context: RequestContext, instance: Instance, requests: Requests) -> list[NetworkRequest]:
        """The requests one by one. The API leaves "auto" only where the project has no network of its own."""
        if requests == "none":
            return []
        if requests and not isinstance(requests, str):
            return requests
        found = available(self._api, context, instance.project_id, may_use_external=False)
        if len(found) > 1:
            raise exception.NetworkAmbiguous()
        if found:
            return [NetworkRequest(found[0]["id"], network_name=found[0]["name"], mtu=found[0].get("mtu"))]
        if requests == "auto":
            return [NetworkRequest(self._api.auto_allocated_network(context, instance.project_id))]
        return []

    def _vifs(self, context: RequestContext, ports: Sequence[Json], networks: Mapping[str, tuple[str | None, int | None]],
              preserve: Sequence[bool], tags: Sequence[str | None],
              floating: Mapping[tuple[str, str], list[str]] | None = None) -> list[VIF]:
        subnets = by_key(self._api.by_ids(context, "subnets", subnet_ids(ports), fields=SUBNET_FIELDS), "id")
        known = dict(networks)
        unknown = {p["network_id"] for p in ports} - known.keys()
        for network in self._api.by_ids(context, "networks", unknown, fields=NETWORK_FIELDS):
            known[network["id"]] = (network["name"], network.get("mtu"))
        vifs = []
        for port, keep, tag in zip(ports, preserve, tags, strict=True):
            name, mtu = known.get(port["network_id"], ("", None))
            vifs.append(make_vif(port, name or "", mtu, subnets, floating or {}, keep, tag))
        return vifs

    # what a compute host does -----------------------------------------------------------------------------------------
    def check_host(self) -> None:
        """Nothing: what is missing here is missing in Neutron's agents."""

    def init_host(self, host: str) -> None:
        """Nothing: Neutron's agents manage the bridges, and a host must start while Neutron is down."""

    def refresh_filters(self) -> None:
        """Nothing: Neutron's agents do."""

    def plug(self, instance: Instance, vif: VIF) -> None:
        """The hypervisor driver puts the tap where the port says; only a Linux bridge has to be there before."""
        if vif.details.get("ovs_hybrid_plug"):
            raise exception.BuildAborted(
                instance_id=instance.uuid,
                reason=f"port {vif.id} asks for hybrid plugging (iptables_hybrid firewall), which is not supported: set "
                       "firewall_driver = openvswitch on the Open vSwitch agents")
        if vif.type != "bridge":
            return
        bridge = check_name(vif.details["bridge"])
        if not self._at.exists(bridge):
            self._at.ip("link", "add", "name", bridge, "type", "bridge", "forward_delay", "0", check=False)
        self._at.ip("link", "set", "dev", bridge, "up")

    def unplug(self, instance: Instance, vif: VIF) -> None:
        """Nothing: who has made the tap removes it."""
