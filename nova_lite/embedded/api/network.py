"""Network v2.0, as much as the standard clients need, on the rows of the embedded network. A network has one subnet, with the
id of the network.
"""
from __future__ import annotations

from typing import Any

import webob
from oslo_config import cfg

from nova_lite import exception, rpc
from nova_lite.conductor.security_group_notifier import SecurityGroupNotifier
from nova_lite.db import host_keys, networks
from nova_lite.db.core import Database
from nova_lite.db.group_changes import GroupChanges
from nova_lite.embedded.api import fields, network_limits
from nova_lite.embedded.api.identity import network_is_offered
from nova_lite.embedded.api.neutron_answers import as_neutron_answers
from nova_lite.embedded.api.security_groups import SecurityGroupHandlers
from nova_lite.embedded.api.wsgi import Application, Request, Route, body_of, scope, select
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.rpc import sender
from nova_lite.rpc.compute import ComputeAPI

EXTENSIONS = ("security-group", "port-security", "net-mtu", "quotas", "quota_details")


def factory(conf: cfg.ConfigOpts) -> Application | None:
    """The WSGI application, mounted at /network; None where the Compute API could not use what is made there."""
    if not network_is_offered(conf):
        return None
    db = Database(conf)
    changes = GroupChanges(db, SecurityGroupNotifier(db, ComputeAPI(
        rpc.get_transport(conf), sender.to_hosts(conf, host_keys.Generations(db)))))
    api, groups = NetworkHandlers(conf, changes), SecurityGroupHandlers(changes)
    return Application(LocalIdentity(f"{conf.state_path}/identity"), [
        Route("GET", "/", api.versions, public=True),
        Route("GET", "/v2.0", api.versions, public=True),
        Route("GET", "/v2.0/extensions", api.extensions),
        Route("GET", "/v2.0/networks", api.list_networks),
        Route("POST", "/v2.0/networks", api.create_network, 201),
        Route("GET", "/v2.0/networks/{network_id}", api.show_network),
        Route("DELETE", "/v2.0/networks/{network_id}", api.delete_network),
        Route("GET", "/v2.0/subnets", api.list_subnets),
        Route("GET", "/v2.0/subnets/{network_id}", api.show_subnet),
        Route("GET", "/v2.0/ports", api.list_ports),
        Route("POST", "/v2.0/ports", api.create_port, 201),
        Route("GET", "/v2.0/ports/{port_id}", api.show_port),
        Route("PUT", "/v2.0/ports/{port_id}", api.update_port),
        Route("DELETE", "/v2.0/ports/{port_id}", api.delete_port),
        *groups.routes(),
        *network_limits.routes(db),
    ])


class NetworkHandlers:
    """Handlers over ``db/networks.py``; a member sees its own and the shared networks, and its own ports."""

    def __init__(self, conf: cfg.ConfigOpts, changes: GroupChanges) -> None:
        self.conf, self.db, self._changes = conf, changes.db, changes

    def versions(self, req: Request) -> dict[str, Any]:
        """GET /network and /network/v2.0"""
        return {"versions": [{"id": "v2.0", "status": "CURRENT", "updated": "2013-07-23T00:00:00Z",
                              "links": [{"rel": "self", "href": f"{req.application_url}/v2.0/"}]}], "resources": []}

    def extensions(self, req: Request) -> dict[str, Any]:
        """GET /v2.0/extensions"""
        return {"extensions": [{"alias": e, "name": e, "description": "", "updated": "2016-01-01T00:00:00Z", "links": []}
                               for e in EXTENSIONS]}

    # networks -------------------------------------------------------------------------------------------------------
    def list_networks(self, req: Request) -> dict[str, Any]:
        """GET /v2.0/networks"""
        return {"networks": select(req, [_network(n) for n in self._visible(req)])}

    def show_network(self, req: Request, network_id: str) -> dict[str, Any]:
        """GET /v2.0/networks/{id}"""
        with self.db.read() as c:
            return {"network": _network(networks.get_network(c, network_id, scope(req)))}

    def create_network(self, req: Request) -> dict[str, Any]:
        """POST /v2.0/networks. Beside Neutron's fields it takes an admin's ``cidr``; without one the next free
        10.71.n.0/24 is used.

        A member's network is its own; an admin's may be shared.
        """
        body = body_of(req, "network")
        shared = fields.flag(body, "shared") and req.is_admin
        values: dict[str, Any] = {
            "name": fields.text(body, "name") or "", "project_id": None if shared else req.token.project_id,
            "mtu": fields.integer(body, "mtu") or self.conf.network.mtu, "bridge_prefix": self.conf.network.bridge_prefix}
        cidr = fields.text(body, "cidr")
        if not cidr:
            return {"network": _network(as_neutron_answers(self.db.write, networks.create_next_network, **values))}
        if not req.is_admin:        # the range goes into the hosts' routing
            raise exception.Forbidden("Only an admin may choose the cidr of a network.")
        made = as_neutron_answers(self.db.write, networks.create_network, cidr=cidr, **values)
        return {"network": _network(made)}

    def delete_network(self, req: Request, network_id: str) -> None:
        """DELETE /v2.0/networks/{id}"""
        with self.db.read() as c:
            network = networks.get_network(c, network_id, scope(req))
        if network["project_id"] != req.token.project_id and not req.is_admin:
            raise exception.Forbidden("Only an admin may delete a shared network.")
        self.db.write(networks.delete_network, network_id)

    def _visible(self, req: Request) -> list[dict[str, Any]]:
        with self.db.read() as c:
            return networks.list_networks(c, scope(req))

    def list_subnets(self, req: Request) -> dict[str, Any]:
        """GET /v2.0/subnets"""
        return {"subnets": select(req, [_subnet(n) for n in self._visible(req)])}

    def show_subnet(self, req: Request, network_id: str) -> dict[str, Any]:
        """GET /v2.0/subnets/{id}"""
        with self.db.read() as c:
            return {"subnet": _subnet(networks.get_network(c, network_id, scope(req)))}

    # ports ----------------------------------------------------------------------------------------------------------
    def list_ports(self, req: Request) -> dict[str, Any]:
        """GET /v2.0/ports"""
        with self.db.read() as c:
            ports = networks.list_ports(c, project_id=scope(req), instance_uuid=req.GET.get("device_id"))
        return {"ports": select(req, [_port(p) for p in ports])}

    def show_port(self, req: Request, port_id: str) -> dict[str, Any]:
        """GET /v2.0/ports/{id}"""
        with self.db.read() as c:
            return {"port": _port(networks.get_port(c, port_id, scope(req)))}

    def create_port(self, req: Request) -> dict[str, Any]:
        """POST /v2.0/ports: network_id, name, one fixed ip, security_groups."""
        body = body_of(req, "port")
        fixed = body.get("fixed_ips")
        fixed = [{}] if fixed in (None, []) else fixed
        if not isinstance(fixed, list) or len(fixed) != 1 or not isinstance(fixed[0], dict):
            raise exception.InvalidInput(reason="fixed_ips must hold exactly one address")
        made = as_neutron_answers(
            self.db.write, networks.create_port, fields.needed(body, "network_id"), req.token.project_id,
            name=fields.text(body, "name") or "", address=fields.text(fixed[0], "ip_address"),
            mac_address=fields.text(body, "mac_address"), groups=_groups(body))
        return {"port": self.show_port(req, made["uuid"])["port"]}

    def update_port(self, req: Request, port_id: str) -> dict[str, Any]:
        """PUT /v2.0/ports/{id}: name, security_groups."""
        body = body_of(req, "port")
        return {"port": _port(self._changes.update_port(port_id, scope(req), fields.text(body, "name"), _groups(body)))}

    def delete_port(self, req: Request, port_id: str) -> webob.Response:
        """DELETE /v2.0/ports/{id}; 409 while a server uses it."""
        self.db.write(networks.delete_port, port_id, scope(req))
        return webob.Response(status=204, content_type=None)


def _groups(body: dict[str, Any]) -> list[str] | None:
    groups = body.get("security_groups")
    if groups is not None and not (isinstance(groups, list) and all(isinstance(one, str) for one in groups)):
        raise exception.InvalidInput(reason="security_groups must be a list of ids")
    return groups


def _network(row: dict[str, Any]) -> dict[str, Any]:
    owner = row["project_id"] or ""
    return {"id": row["uuid"], "name": row["name"], "status": "ACTIVE", "admin_state_up": True, "project_id": owner,
            "tenant_id": owner, "shared": row["project_id"] is None, "router:external": False, "mtu": row["mtu"],
            "subnets": [row["uuid"]], "port_security_enabled": True, "availability_zones": [], "tags": [],
            "description": "", "is_default": False, "provider:network_type": "flat"}


def _subnet(row: dict[str, Any]) -> dict[str, Any]:
    owner = row["project_id"] or ""
    return {"id": row["uuid"], "name": row["name"], "network_id": row["uuid"], "cidr": row["cidr"], "ip_version": 4,
            "gateway_ip": row["gateway"], "enable_dhcp": True, "dns_nameservers": row["dns"], "host_routes": [],
            "allocation_pools": [], "project_id": owner, "tenant_id": owner, "tags": [], "description": ""}


def _port(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["uuid"], "name": row["name"], "network_id": row["network_uuid"], "mac_address": row["mac_address"],
            "fixed_ips": [{"subnet_id": row["network_uuid"], "ip_address": row["address"]}], "admin_state_up": True,
            "status": "ACTIVE" if row["instance_uuid"] else "DOWN", "device_id": row["instance_uuid"] or "",
            "device_owner": "compute:nova" if row["instance_uuid"] else "", "project_id": row["project_id"],
            "tenant_id": row["project_id"], "security_groups": row["security_groups"], "binding:host_id": row["host"] or "",
            "binding:vnic_type": "normal", "tags": [], "description": ""}
