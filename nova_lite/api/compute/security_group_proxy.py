"""/os-security-groups and /os-security-group-rules: Neutron's groups for clients that know only this API (until 2.35)."""
from __future__ import annotations

import ipaddress
from typing import Any

from nova_lite import exception
from nova_lite.api.compute import params
from nova_lite.api.compute.schemas import security_groups as schema
from nova_lite.api.compute.views import security_groups as view
from nova_lite.api.openstack.formats import is_uuid
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.network import SecurityGroupRule
from nova_lite.policies.base import member, reader

LAST = "2.35"
_PORTS = {"tcp": (1, 65535), "udp": (1, 65535), "icmp": (-1, 255)}


def index(req: Request) -> dict[str, Any]:
    """The groups of the project; with ``all_tenants``, for admins, those of all."""
    everything = bool(req.context.is_admin) and "all_tenants" in req.params_in
    found = req.services.network.groups.list_all(req.context, everything)
    page = sorted(params.slice_of(req, found), key=lambda one: (one.project_id, one.name))
    return {"security_groups": [view.full(one) for one in page]}


def show(req: Request, group_id: str) -> dict[str, Any]:
    """One group."""
    return {"security_group": view.full(req.services.network.groups.get(req.context, _id(group_id)))}


def create(req: Request) -> dict[str, Any]:
    """A new group."""
    name, description = _texts(req)
    return {"security_group": view.full(req.services.network.groups.create(req.context, name, description))}


def update(req: Request, group_id: str) -> dict[str, Any]:
    """Another name and description."""
    name, description = _texts(req)
    return {"security_group": view.full(req.services.network.groups.update(req.context, _id(group_id), name, description))}


def delete(req: Request, group_id: str) -> None:
    """Remove a group."""
    req.services.network.groups.delete(req.context, _id(group_id))


def create_rule(req: Request) -> dict[str, Any]:
    """Let more in."""
    rule = _rule(req.json_in["security_group_rule"])
    return {"security_group_rule": view.rule(req.services.network.groups.add_rule(req.context, rule))}


def delete_rule(req: Request, rule_id: str) -> None:
    """Let it in no more."""
    req.services.network.groups.delete_rule(req.context, _id(rule_id))


def _id(text: str) -> str:
    if not is_uuid(text):
        raise exception.Invalid("Security group id should be uuid")
    return text


def _texts(req: Request) -> tuple[str, str]:
    group = req.json_in["security_group"]
    return group["name"], group["description"]


def _rule(body: dict[str, Any]) -> SecurityGroupRule:
    """A rule from a body; raises Invalid for one that makes no sense. With a group as its source, ports may be left out."""
    group_id, protocol = body.get("group_id"), body.get("ip_protocol")
    first, last = body.get("from_port"), body.get("to_port")
    kind = str(protocol).lower() if protocol else ""
    if group_id and first is None and last is None:
        if kind in _PORTS:
            first, last = (-1, -1) if kind == "icmp" else _PORTS[kind]
    elif not kind or first is None or last is None:
        if not group_id:
            raise exception.Invalid("Not enough parameters to build a valid rule.")
        kind, first, last = "", None, None
    if kind:
        first, last = _ports(kind, first, last)
    cidr = None if group_id else _cidr(body.get("cidr"))
    return SecurityGroupRule("", body["parent_group_id"], kind or None, first, last, cidr, remote_group_id=group_id)


def _ports(kind: str, first: Any, last: Any) -> tuple[int, int]:
    if kind not in _PORTS:
        raise exception.Invalid(f"Invalid IP protocol {kind[:100]}.")
    try:
        first, last = int(first), int(last)
    except (TypeError, ValueError, OverflowError):
        what = "Type and Code" if kind == "icmp" else "To and From ports"
        raise exception.InvalidInput(reason=f"{what} must be integers") from None
    lowest, highest = _PORTS[kind]
    if min(first, last) < lowest or max(first, last) > highest or (kind != "icmp" and first > last):
        raise exception.Invalid(f"Invalid port range {str(first)[:20]}:{str(last)[:20]}: for {kind} it must lie in "
                                f"{lowest}-{highest}, the lower end first.")
    return first, last


def _cidr(value: Any) -> str:
    text = value or "0.0.0.0/0"
    try:
        if not isinstance(text, str) or "/" not in text:
            raise ValueError("no prefix")
        network = ipaddress.ip_network(text, strict=False)
        if network.prefixlen == 0 and not ipaddress.ip_interface(text).ip.is_unspecified:
            raise ValueError("prefix 0")
    except ValueError:
        raise exception.Invalid(f"Invalid cidr {str(text)[:100]}.") from None
    return text


_RULE = "os_compute_api:os-security-groups"
_GROUPS, _GROUP = "/os-security-groups", "/os-security-groups/{group_id}"
ROUTES = [
    Route("GET", _GROUPS, index, reader(f"{_RULE}:get", "List security groups (up to 2.35)."), last=LAST,
          query=schema.LIST_QUERY, response=schema.LIST),
    Route("POST", _GROUPS, create, member(f"{_RULE}:create", "Create a security group (up to 2.35)."), last=LAST,
          body=schema.CREATE, response=schema.SHOW),
    Route("GET", _GROUP, show, reader(f"{_RULE}:show", "Show a security group (up to 2.35)."), last=LAST, response=schema.SHOW),
    Route("PUT", _GROUP, update, member(f"{_RULE}:update", "Change a security group (up to 2.35)."), last=LAST,
          body=schema.CREATE, response=schema.SHOW),
    Route("DELETE", _GROUP, delete, member(f"{_RULE}:delete", "Delete a security group (up to 2.35)."), last=LAST,
          response=schema.NOTHING, status=202),
    Route("POST", "/os-security-group-rules", create_rule,
          member(f"{_RULE}:rule:create", "Create a rule of a security group (up to 2.35)."), last=LAST, body=schema.CREATE_RULE,
          response=schema.RULE),
    Route("DELETE", "/os-security-group-rules/{rule_id}", delete_rule,
          member(f"{_RULE}:rule:delete", "Delete a rule of a security group (up to 2.35)."), last=LAST, response=schema.NOTHING,
          status=202),
]
