"""The networks and ports of a request for a new server, checked with the user's own token before the server is written."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nova_lite import exception
from nova_lite.context import RequestContext, admin_context
from nova_lite.network.base import Requests, Wanted
from nova_lite.network.neutron_api import Json, NeutronAPI, by_key
from nova_lite.objects.hardware.asked import is_true
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import NetworkRequest

DEFAULT = "default"
NORMAL = "normal"
NETWORK_FIELDS = ["id", "name", "mtu", "subnets", "shared", "project_id", "router:external", "admin_state_up",
                  "port_security_enabled", "dns_domain"]


class RequestChecker:
    """One call for the usual request: networks by id and the group "default"."""

    def __init__(self, api: NeutronAPI) -> None:
        self._api = api

    def check(self, context: RequestContext, requests: Requests, groups: Sequence[str], may_use_external: bool,
              server: Instance | None = None) -> Wanted:
        """See ``NetworkAPI.validate``."""
        project = server.project_id if server else context.project_id or ""
        if requests == "none":
            self._groups(context, project, groups)
            return Wanted(requests)
        if not requests or isinstance(requests, str):
            found = available(self._api, context, project, may_use_external)
            if len(found) > 1:
                raise exception.NetworkAmbiguous()
            if not found:
                return self._nothing(context, project, requests, groups)
            requests, networks, ports = [NetworkRequest(found[0]["id"])], by_key(found, "id"), {}
        else:
            ports = self._ports(context, requests, server.uuid if server else f"of project {project}", project)
            networks = self._networks(context, requests, ports)
        ids, names = self._groups(context, project, groups)
        made = [_enriched(r, ports.get(r.port_id or ""), networks, ids, may_use_external) for r in requests]
        for request in made:
            if request.address:
                self._check_address(context, request)
        return Wanted(made, self._on_ports(context, made, ports, networks, names))

    def _on_ports(self, context: RequestContext, requests: Sequence[NetworkRequest], ports: Mapping[str, Json],
                  networks: Mapping[str, Json], names: Sequence[str]) -> list[str]:
        """The names of the groups that the ports will be in; ``names`` are those of new ones, where their network filters."""
        filtered = any(not r.port_id and networks.get(r.network_id or "", {}).get("port_security_enabled") is not False
                       for r in requests)
        ids = {group for port in ports.values() for group in port.get("security_groups", ())}
        theirs = self._api.by_ids(context, "security-groups", ids, fields=["id", "name"])
        return list(dict.fromkeys([*(names if filtered else ()), *(group["name"] or group["id"] for group in theirs)]))

    def _nothing(self, context: RequestContext, project: str, requests: Requests, groups: Sequence[str]) -> Wanted:
        """The project has no network: a server without nics, or ("auto") one on the network that Neutron will make."""
        names = self._groups(context, project, groups)[1]
        if requests != "auto":
            return Wanted("none")
        self._api.auto_allocated_network(context, project, dry_run=True)
        return Wanted("auto", names)

    def _ports(self, context: RequestContext, requests: Sequence[NetworkRequest], server: str,
               project: str) -> dict[str, Json]:
        asked = [r.port_id for r in requests if r.port_id]
        found = by_key(self._api.by_ids(context, "ports", asked), "id")
        for port_id in asked:
            if port_id not in found:
                raise exception.PortNotFound(port_id=port_id)
            check_port(found[port_id])
            check_owner(found[port_id], server, project)
            if found[port_id].get("device_id"):
                raise exception.PortInUse(port_id=port_id)
        # only the service user sees what its policy guarantees
        limited = [p["id"] for p in found.values() if p.get("qos_policy_id") or p.get("qos_network_policy_id")]
        for port in self._api.by_ids(admin_context(), "ports", limited, fields=["id", "resource_request"]):
            _check_bandwidth(port)
        return found

    def _networks(self, context: RequestContext, requests: Sequence[NetworkRequest],
                  ports: Mapping[str, Json]) -> dict[str, Json]:
        asked = {r.network_id for r in requests if r.network_id and not r.port_id}
        of_ports = {p["network_id"] for p in ports.values()}
        found = by_key(self._api.by_ids(context, "networks", {*asked, *of_ports}, fields=NETWORK_FIELDS), "id")
        for network_id in sorted(asked - found.keys()):
            raise exception.NetworkNotFound(network_id=network_id)
        return found

    def _groups(self, context: RequestContext, project: str, asked: Sequence[str]) -> tuple[list[str] | None, list[str]]:
        """(ids, names) of security groups; ids None: Neutron gives new ports the project's default group by itself."""
        if list(asked) == [DEFAULT]:
            return None, [DEFAULT]
        query = {"project_id": project} if context.is_admin else {}
        found = self._api.list(context, "security-groups", fields=["id", "name", "project_id"], **query)
        chosen = [choose_group(name, found, project) for name in asked]
        return list(dict.fromkeys(g["id"] for g in chosen)), list(dict.fromkeys(g["name"] for g in chosen))

    def _check_address(self, context: RequestContext, request: NetworkRequest) -> None:
        users = self._api.list(context, "ports", network_id=request.network_id, fixed_ips=f"ip_address={request.address}",
                               fields=["id", "device_id"])
        if users:
            raise exception.FixedIpAlreadyInUse(address=request.address, network_id=request.network_id)


def available(api: NeutronAPI, context: RequestContext, project_id: str, may_use_external: bool) -> list[Json]:
    """Networks that a server of the project may get without naming one: the project's own and the shared ones."""
    queries: tuple[Json, ...] = ({},)
    if context.is_admin or not context.auth_token:      # who would be answered the networks of the whole cloud
        queries = ({"project_id": project_id}, {"shared": True})
    found = by_key((n for query in queries for n in api.list(
        context, "networks", admin_state_up=True, fields=NETWORK_FIELDS, **query)), "id")
    return [n for n in found.values() if (n["project_id"] == project_id or n.get("shared"))
            and (may_use_external or n.get("shared") or not n.get("router:external"))]


def check_port(port: Json) -> None:
    """Raise UnsupportedNetworkRequest or PortRequiresFixedIP for a port that no guest of ours can have."""
    kind = port.get("binding:vnic_type") or NORMAL
    if kind != NORMAL:
        raise exception.UnsupportedNetworkRequest(
            reason=f"Port {port['id']} has VNIC type {kind}: SR-IOV and other hardware ports are not supported, only {NORMAL}.")
    _check_bandwidth(port)
    for name, is_asked, reason in _HARDWARE:
        if is_asked(port):
            raise exception.UnsupportedNetworkRequest(reason=f"Port {port['id']} has {name}: {reason}.")
    if not port.get("fixed_ips") and port.get("ip_allocation") not in ("deferred", "none"):
        raise exception.PortRequiresFixedIP(port_id=port["id"])


# attribute of a port, whether it asks for something, why that is not there
_HARDWARE: tuple[tuple[str, Callable[[Json], object], str], ...] = (
    ("device_profile", lambda port: port.get("device_profile"), "there is no accelerator service"),
    ("numa_affinity_policy", lambda port: port.get("numa_affinity_policy") in ("required", "socket"),
     "its nic is of no device, and so of no NUMA node"),
    ("trusted", lambda port: is_true(str((port.get("binding:profile") or {}).get("trusted") or port.get("trusted"))),
     "only the SR-IOV functions of a host can be trusted, and such ports are not supported"),
    ("hardware_offload_type", lambda port: port.get("hardware_offload_type"), "hardware ports are not supported"))


def _check_bandwidth(port: Json) -> None:
    if port.get("resource_request"):
        raise exception.UnsupportedNetworkRequest(
            reason=f"Port {port['id']} asks for guaranteed bandwidth (resource_request), which is not supported.")


def check_owner(port: Json, server: str, project: str) -> None:
    """Raise PortNotUsable for a port of another project than the server's. The owner of a network sees the ports of others on
    it, and an admin sees all, but a port brings the addresses and security groups of its owner."""
    if port["project_id"] != project:
        raise exception.PortNotUsable(port_id=port["id"], instance=server)


def choose_group(name: str, found: Sequence[Json], project_id: str | None) -> Json:
    """The group of an id or name; the project's own groups come before those that others share with it."""
    for match in ([g for g in found if g["id"] == name],
                  [g for g in found if g["name"] == name and g.get("project_id") == project_id],
                  [g for g in found if g["name"] == name]):
        if len(match) > 1:
            raise exception.SecurityGroupAmbiguous(name=name)
        if match:
            return match[0]
    raise exception.SecurityGroupNotFound(security_group_id=name)


def _enriched(request: NetworkRequest, port: Json | None, networks: Mapping[str, Json], groups: list[str] | None,
              may_use_external: bool) -> NetworkRequest:
    """The request with the attributes of its network; raises the reason why no nic is allowed there."""
    network_id = port["network_id"] if port else request.network_id or ""
    network = networks.get(network_id)
    if port is None and network is not None:
        _check_network(network, groups, may_use_external)
    known = network or {}
    return NetworkRequest(
        network_id, request.port_id, request.address, request.tag, known.get("name"), known.get("mtu"),
        dns="dns_domain" in known, security_groups=None if port else groups,
        revision=port.get("revision_number") if port and network else None)


def _check_network(network: Json, groups: list[str] | None, may_use_external: bool) -> None:
    if network.get("router:external") and not network.get("shared") and not may_use_external:
        raise exception.ExternalNetworkAttachForbidden(network_id=network["id"])
    if not network.get("subnets"):
        raise exception.NetworkRequiresSubnet(network_id=network["id"])
    if groups and network.get("port_security_enabled") is False:
        raise exception.SecurityGroupCannotBeApplied(network_id=network["id"])
