"""The interface to the network: ports and addresses (``NetworkAPI``), and what a host does with them (``HostNetwork``)."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oslo_config import cfg
from stevedore import driver as stevedore_driver

from nova_lite.context import RequestContext
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FloatingIP, NetworkRequest, PortState, SecurityGroup, SecurityGroupRule

Requests = list[NetworkRequest] | str | None
"""What a user may ask: a list, "auto", "none", or None for whatever there is."""


@dataclass(frozen=True)
class Wanted:
    """A request for nics that passed the checks, as it is to be kept with the server. ``security_groups`` are the names of the
    groups that the ports will be in: those of the request for new ports, their own for ports of the user."""

    requests: Requests
    security_groups: list[str] = field(default_factory=list)


class PortStore(Protocol):
    """Where the embedded network keeps networks and ports. Two forms: ``db/port_store.py`` where there is a database, and the
    conductor's RPC on compute hosts. Dictionaries have the columns of ``networks`` and ``ports``."""

    @property
    def groups(self) -> StoredGroups | None:
        """None on compute hosts: groups are not read there."""

    def list_networks(self, project_id: str | None) -> list[dict[str, Any]]:
        """Networks that the project may use (None: all)."""

    def check_requests(self, project_id: str, requests: list[dict[str, Any]], count: int) -> None:
        """Raise the errors of ``allocate_ports`` for ``count`` servers; changes nothing. Called by the API only, so the store
        of compute hosts inherits this one."""

    def allocate_ports(self, instance_uuid: str, project_id: str, host: str,
                       requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ports for the NetworkRequests (as primitives), in order; each with its ``network``. A request without network and
        port means the project's only network (no port when there is none). Called again for the same instance it gives the
        same ports. Raises NetworkAmbiguous, NetworkNotFound, PortNotFound, PortInUse, NoMoreFixedIps."""

    def release_ports(self, instance_uuid: str) -> None:
        """Delete the ports that ``allocate_ports`` made for the instance, unbind those that the user brought."""

    def release_port(self, instance_uuid: str, port_id: str | None, key: str | None) -> None:
        """The same for one port, named by its id or by the key of the NetworkRequest that it was made for."""

    def move_ports(self, instance_uuid: str, host: str) -> None:
        """All ports of a server are bound to ``host`` from now on."""

    def list_server_ports(self, instance_uuid: str) -> list[dict[str, Any]]:
        """All ports of a server, each as in ``list_host_ports``."""

    def list_host_ports(self, host: str) -> list[dict[str, Any]]:
        """All ports bound to a host, each with its ``network``, the instance's ``hostname`` and the ids of its
        ``security_groups``."""

    def rules_for(self, group_ids: Sequence[str]) -> dict[str, Any]:
        """The filter's data of ports in these groups: ``rules`` (columns of ``group_rules.Rule``) by group, and ``members``
        ([network, address]) of the groups that the rules name."""


class GroupsAPI(Protocol):
    """Security groups, read and changed with the token of the user. All raise SecurityGroupNotFound (404) for a group that does
    not exist or is not visible, and Invalid (400) or Forbidden (403) for a request that the network refuses."""

    def of_server(self, context: RequestContext, instance: Instance) -> list[SecurityGroup]:
        """The groups of all nics of a server, each once."""

    def add(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """Put every nic of a server into a group (its name or id); a nic that is in the group stays. Raises
        SecurityGroupNotFound also for a server without nics, and SecurityGroupAmbiguous."""

    def remove(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """The inverse; raises SecurityGroupNotFound also when no nic is in the group."""

    def list_all(self, context: RequestContext, every_project: bool = False) -> list[SecurityGroup]:
        """The groups of the context's project, or of all."""

    def get(self, context: RequestContext, group_id: str) -> SecurityGroup:
        """One group."""

    def create(self, context: RequestContext, name: str, description: str) -> SecurityGroup:
        """A new group of the context's project."""

    def update(self, context: RequestContext, group_id: str, name: str, description: str) -> SecurityGroup:
        """Another name and description."""

    def delete(self, context: RequestContext, group_id: str) -> None:
        """Remove a group that no nic is in."""

    def add_rule(self, context: RequestContext, rule: SecurityGroupRule) -> SecurityGroupRule:
        """Let more in; the answer has its id. Raises Invalid for a rule that is there already."""

    def delete_rule(self, context: RequestContext, rule_id: str) -> None:
        """Let it in no more."""


class StoredGroups(GroupsAPI, Protocol):
    """The groups of the embedded network."""

    def choose(self, project_id: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """(id, name) of groups for the nics of a project's new server, by names or ids, each once."""

    def of_ports(self, port_ids: Sequence[str]) -> list[str]:
        """The names of the groups of these ports, each once."""


class FloatingIPsAPI(Protocol):
    """Public addresses, read and changed with the token of the user. All raise NotFound (404) for an address that does not
    exist or is not visible, and Invalid (400) or Forbidden (403) for a request that the network refuses."""

    def pools(self, context: RequestContext) -> list[str]:
        """Names of the networks that have such addresses."""

    def list_all(self, context: RequestContext) -> list[FloatingIP]:
        """Those of the context's project."""

    def get(self, context: RequestContext, floating_id: str) -> FloatingIP:
        """One of them."""

    def find(self, context: RequestContext, address: str) -> FloatingIP:
        """The one of an address."""

    def create(self, context: RequestContext, pool: str | None) -> FloatingIP:
        """A new one of a pool (name or id; None: the only pool that there is). Raises QuotaLimitExceeded."""

    def delete(self, context: RequestContext, floating_id: str) -> None:
        """Give one back."""

    def associate(self, context: RequestContext, floating_id: str, port_id: str | None, fixed_address: str | None) -> None:
        """Let it lead to an address of a port (None: nowhere any more)."""


class NetworkAPI(Protocol):
    """Made by :func:`load` with a PortStore, which only the embedded drivers use."""

    groups: GroupsAPI
    floating_ips: FloatingIPsAPI

    def validate(self, context: RequestContext, requests: Requests, count: int,
                 security_groups: Sequence[str] = ("default",), may_use_external: bool = False,
                 server: Instance | None = None) -> Wanted:
        """Called by the API before 202, with the user's token. Raises the errors of ``allocate`` for networks, ports and
        security groups (names or ids) that do not exist; returns the requests with the attributes of their networks.

        ``may_use_external``: policy allows nics on external networks, else ExternalNetworkAttachForbidden. ``server``: the
        server that gets one more nic; its project counts, whoever sends the request (None: a new server of the context's
        project).
        """

    def list_networks(self, context: RequestContext) -> list[dict[str, Any]]:
        """Networks of the project: ``id``, ``label``, ``cidr``, for the /os-networks proxies."""

    def allocate(self, context: RequestContext, instance: Instance, requests: Requests, host: str) -> list[VIF]:
        """Ports for a new server on ``host``; run again it gives the same ones. "none" gives no port; "auto" and None the
        project's only network (none when there is no network; InvalidInput-like 409 Conflict when there are several)."""

    def deallocate(self, context: RequestContext, instance: Instance) -> None:
        """Release the ports of ``allocate``; ports of the user are unbound, not deleted."""

    def attach(self, context: RequestContext, instance: Instance, request: NetworkRequest, host: str) -> VIF:
        """A port for one more nic of a server on ``host``, whose present nics are ``instance.network_info``; a second run
        returns the same port. Raises PortInUse, PortNotFound, NetworkNotFound, NoMoreFixedIps, FixedIpAlreadyInUse and similar
        errors."""

    def detach(self, context: RequestContext, instance: Instance, vif: VIF) -> None:
        """Release the port of one nic: deleted when it was made for the server, else unbound. A port that is gone, or that
        another server has by now, is left alone."""

    def abandon(self, context: RequestContext, instance: Instance, request: NetworkRequest) -> None:
        """Release what an interrupted ``attach`` may have taken."""

    def add_address(self, context: RequestContext, instance: Instance, network_id: str) -> None:
        """One more address for the server's nic on a network. Raises Invalid (400) for a network on which it has none, or
        that has no address left; ``instance.network_info`` is not changed: ``refresh`` finds the address."""

    def remove_address(self, context: RequestContext, instance: Instance, address: str) -> None:
        """The inverse. Raises FixedIpNotFoundForInstance (400)."""

    def refresh(self, context: RequestContext, instance: Instance) -> list[VIF]:
        """The nics of ``instance.network_info`` as the network has them now, those that are gone left out."""

    def move(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """Bind all nics of the server to ``host`` and to no other host. Returns the nics as they are there, without those whose
        port is gone. A second run returns the same. Raises VirtDriverError when a port cannot be bound."""

    def expect(self, context: RequestContext, instance: Instance, host: str) -> list[VIF]:
        """Before a running server moves: its nics as they will be on ``host``, while the present ones keep working."""

    def announce(self, context: RequestContext, instance: Instance, host: str) -> None:
        """After ``expect``, when the server is about to arrive: let its nics be wired on ``host``. Called again when they are
        not reported as wired."""

    def forget(self, context: RequestContext, instance: Instance, host: str) -> None:
        """The server will not come to ``host``: undo ``expect`` and ``announce``."""

    def host_ports(self, context: RequestContext, host: str) -> Mapping[str, Mapping[str, PortState]]:
        """Server -> port -> the present data of the port, for all servers' ports on ``host``. {} where no event can be lost."""

    def port_states(self, context: RequestContext, port_ids: Sequence[str]) -> dict[str, str]:
        """port id -> its status ("ACTIVE", "DOWN", ...); without ports that are gone."""

    def servers_with_ports(self, context: RequestContext, uuids: Sequence[str]) -> set[str]:
        """Those of these servers, which are gone, for whom the network still has ports."""

    def check_host(self) -> None:
        """On a compute host, before it takes up anything. Raises ConfigError where this driver cannot work here."""

    def init_host(self, host: str) -> None:
        """On a compute host: make bridges, DHCP and so on match the store."""

    def refresh_filters(self) -> None:
        """On a compute host: what guests may send and get follows their security groups, wherever those were changed."""

    def plug(self, instance: Instance, vif: VIF) -> None:
        """On a compute host, before the guest starts: everything but the tap itself, which the hypervisor driver makes."""

    def unplug(self, instance: Instance, vif: VIF) -> None:
        """On a compute host, after the guest is gone: the inverse; a tap that stayed is removed."""


def load(conf: cfg.ConfigOpts, store: PortStore | None) -> NetworkAPI:
    """The driver ``[network] driver``."""
    manager: Any = stevedore_driver.DriverManager("nova_lite.network", conf.network.driver, invoke_on_load=True,
                                                  invoke_args=(conf, store))
    return manager.driver
