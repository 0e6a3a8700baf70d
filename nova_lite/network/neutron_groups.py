"""Security groups in Neutron: which the ports of a server are in, and changes of that."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron_api import Json, NeutronAPI, StaleRevision, by_key
from nova_lite.network.neutron_requests import choose_group
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import SecurityGroup, SecurityGroupRule

_PORT_FIELDS = ["id", "security_groups", "revision_number"]
_TRIES = 3          # tries of a change, when another client changes the port at the same time
_EVERYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}


class Groups:
    """All calls use the token of the caller: Neutron decides what its users may change."""

    def __init__(self, api: NeutronAPI) -> None:
        self._api = api

    def of_server(self, context: RequestContext, instance: Instance) -> list[SecurityGroup]:
        """See ``GroupsAPI.of_server``. Two calls, and a third one when rules name other groups."""
        ids = {group for port in self._ports(context, instance) for group in port.get("security_groups", ())}
        return self._made(context, self._api.by_ids(context, "security-groups", ids))

    def add(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """See GroupsAPI."""
        group = self._find(context, instance, name)
        ports = self._ports(context, instance)
        if not ports:
            raise exception.SecurityGroupNotFound(f"Server {instance.uuid} has no port that security group {name} could be "
                                                  "put on.")
        for port in ports:
            self._change(context, instance, port, lambda groups: [*groups, group["id"]] if group["id"] not in groups else None)
        return make_group(group, {})

    def remove(self, context: RequestContext, instance: Instance, name: str) -> SecurityGroup:
        """See GroupsAPI."""
        group = self._find(context, instance, name)

        def without(groups: Sequence[str]) -> list[str] | None:
            return [g for g in groups if g != group["id"]] if group["id"] in groups else None

        changed = [self._change(context, instance, port, without) for port in self._ports(context, instance)]
        if not any(changed):
            raise exception.SecurityGroupNotFound(f"Security group {name} is not associated with server {instance.uuid}.")
        return make_group(group, {})

    def list_all(self, context: RequestContext, every_project: bool = False) -> list[SecurityGroup]:
        """See GroupsAPI."""
        query = {} if every_project else {"project_id": context.project_id}
        return self._made(context, self._api.list(context, "security-groups", **query))

    def get(self, context: RequestContext, group_id: str) -> SecurityGroup:
        """See GroupsAPI."""
        return self._made(context, [self._api.get(context, "security-groups", group_id)])[0]

    def create(self, context: RequestContext, name: str, description: str) -> SecurityGroup:
        """See GroupsAPI."""
        made = self._api.create(context, "security-groups", {"name": name, "description": description})
        return self._made(context, [made])[0]

    def update(self, context: RequestContext, group_id: str, name: str, description: str) -> SecurityGroup:
        """See GroupsAPI."""
        changed = self._api.update(context, "security-groups", group_id, {"name": name, "description": description})
        return self._made(context, [changed])[0]

    def delete(self, context: RequestContext, group_id: str) -> None:
        """See GroupsAPI."""
        self._api.delete(context, "security-groups", group_id)

    def add_rule(self, context: RequestContext, rule: SecurityGroupRule) -> SecurityGroupRule:
        """See GroupsAPI."""
        known = {}
        if rule.remote_group_id:
            known = {rule.remote_group_id: self._api.get(context, "security-groups", rule.remote_group_id)}
        made = self._api.create(context, "security-group-rules", {
            "direction": "ingress", "ethertype": "IPv6" if ":" in (rule.cidr or "") else "IPv4", "protocol": rule.protocol,
            "remote_ip_prefix": rule.cidr, "remote_group_id": rule.remote_group_id, "security_group_id": rule.group_id,
            "port_range_min": None if rule.from_port == -1 else rule.from_port,
            "port_range_max": None if rule.to_port == -1 else rule.to_port})
        return _rule(made, known)

    def delete_rule(self, context: RequestContext, rule_id: str) -> None:
        """See GroupsAPI."""
        self._api.delete(context, "security-group-rules", rule_id)

    def _made(self, context: RequestContext, rows: Sequence[Json]) -> list[SecurityGroup]:
        """Groups with the names of the groups that their rules name: one more call when these are others."""
        known = by_key(rows, "id")
        others = {rule.get("remote_group_id") for row in rows for rule in row.get("security_group_rules", ())} - {None}
        known |= by_key(self._api.by_ids(context, "security-groups", others - known.keys(),
                                         fields=["id", "name", "project_id"]), "id")
        return [make_group(row, known) for row in rows]

    def _find(self, context: RequestContext, instance: Instance, name: str) -> Json:
        query = {"project_id": instance.project_id} if context.is_admin else {}
        found = self._api.list(context, "security-groups", fields=["id", "name", "description", "project_id"], **query)
        return choose_group(name, found, instance.project_id)

    def _ports(self, context: RequestContext, instance: Instance) -> Sequence[Json]:
        return self._api.list(context, "ports", device_id=instance.uuid, fields=_PORT_FIELDS)

    def _change(self, context: RequestContext, instance: Instance, port: Json,
                change: Callable[[Sequence[str]], list[str] | None]) -> bool:
        """Write what ``change`` makes of a port's groups; None: it is as it should be, and False is the answer."""
        for attempt in range(1, _TRIES + 1):
            groups = change(port.get("security_groups", ()))
            if groups is None:
                return False
            try:
                self._api.update_port(context, port["id"], {"security_groups": groups}, port.get("revision_number"))
                return True
            except StaleRevision:
                if attempt == _TRIES:
                    raise
            now = by_key(self._ports(context, instance), "id")
            if port["id"] not in now:
                return False
            port = now[port["id"]]
        raise AssertionError("unreachable")


def make_group(row: Json, known: Mapping[str, Json]) -> SecurityGroup:
    """Neutron's group in our form; rules whose remote group is not ``known`` (it was deleted just now) are left out."""
    rules = [_rule(rule, known) for rule in row.get("security_group_rules", ()) if rule["direction"] == "ingress"
             and (not rule.get("remote_group_id") or rule["remote_group_id"] in known)]
    return SecurityGroup(row["id"], row["name"], row.get("project_id") or row.get("tenant_id") or "",
                         row.get("description") or "", rules)


def _rule(row: Json, known: Mapping[str, Json]) -> SecurityGroupRule:
    protocol, first, last = row["protocol"], row.get("port_range_min"), row.get("port_range_max")
    if protocol and first is None and last is None:
        first, last = (1, 65535) if protocol.lower() in ("tcp", "udp") else (-1, -1)
    remote = known.get(row.get("remote_group_id") or "")
    return SecurityGroupRule(
        row["id"], row["security_group_id"], protocol, first, last,
        None if remote else row.get("remote_ip_prefix") or _EVERYWHERE[row.get("ethertype", "IPv4")],
        {"name": remote["name"], "tenant_id": remote["project_id"]} if remote else None, row.get("remote_group_id"))
