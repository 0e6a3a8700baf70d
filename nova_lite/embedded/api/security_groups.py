"""Security groups of the embedded Network API: what ``openstack security group ...`` and openstacksdk send."""
from __future__ import annotations

from typing import Any

import webob

from nova_lite import exception, units
from nova_lite.db import security_groups
from nova_lite.db.group_changes import GroupChanges
from nova_lite.embedded.api import fields
from nova_lite.embedded.api.neutron_answers import as_neutron_answers
from nova_lite.embedded.api.wsgi import Request, Route, body_of, scope, select
from nova_lite.network.group_rules import parse

_GROUPS, _GROUP = "/v2.0/security-groups", "/v2.0/security-groups/{group_id}"
_RULES, _RULE = "/v2.0/security-group-rules", "/v2.0/security-group-rules/{rule_id}"


class SecurityGroupHandlers:
    """Handlers over ``db/security_groups.py``; a member sees those of its project."""

    def __init__(self, changes: GroupChanges) -> None:
        self.db, self._changes = changes.db, changes

    def routes(self) -> list[Route]:
        """What the application serves of it."""
        return [Route("GET", _GROUPS, self.list_groups), Route("POST", _GROUPS, self.create_group, 201),
                Route("GET", _GROUP, self.show_group), Route("PUT", _GROUP, self.update_group),
                Route("DELETE", _GROUP, self.delete_group), Route("GET", _RULES, self.list_rules),
                Route("POST", _RULES, self.create_rule, 201), Route("GET", _RULE, self.show_rule),
                Route("DELETE", _RULE, self.delete_rule)]

    def list_groups(self, req: Request) -> dict[str, Any]:
        """GET /v2.0/security-groups"""
        self._changes.ensure_default(req.token.project_id)
        with self.db.read() as c:
            return {"security_groups": select(req, [_group(g) for g in security_groups.list_groups(c, scope(req))])}

    def show_group(self, req: Request, group_id: str) -> dict[str, Any]:
        """GET /v2.0/security-groups/{id}"""
        self._changes.ensure_default(req.token.project_id)
        with self.db.read() as c:
            return {"security_group": _group(security_groups.get_group(c, group_id, scope(req)))}

    def create_group(self, req: Request) -> dict[str, Any]:
        """POST /v2.0/security-groups: name, description; an admin may do it for another project."""
        body = body_of(req, "security_group")
        project = fields.text(body, "project_id") or fields.text(body, "tenant_id") or req.token.project_id
        if project != req.token.project_id and not req.is_admin:
            raise exception.Forbidden("Only an admin may make security groups for another project.")
        if body.get("stateful") not in (None, True):
            raise exception.InvalidInput(reason="there are no stateless security groups here")
        made = as_neutron_answers(self._changes.create, project, fields.text(body, "name") or "",
                                   fields.text(body, "description") or "")
        return {"security_group": _group(made)}

    def update_group(self, req: Request, group_id: str) -> dict[str, Any]:
        """PUT /v2.0/security-groups/{id}: name, description"""
        body = body_of(req, "security_group")
        values: dict[str, str] = {key: fields.text(body, key) or "" for key in ("name", "description") if key in body}
        return {"security_group": _group(self._changes.update(group_id, scope(req), values))}

    def delete_group(self, req: Request, group_id: str) -> webob.Response:
        """DELETE /v2.0/security-groups/{id}; 409 while a port is in it."""
        self._changes.delete(group_id, scope(req))
        return webob.Response(status=204, content_type=None)

    def list_rules(self, req: Request) -> dict[str, Any]:
        """GET /v2.0/security-group-rules"""
        self._changes.ensure_default(req.token.project_id)
        with self.db.read() as c:
            mine = [] if req.is_admin else [security_groups.GROUPS.c.project_id == req.token.project_id]
            return {"security_group_rules": select(req, [_rule(rule) for rule in security_groups.list_rules(c, *mine)])}

    def show_rule(self, req: Request, rule_id: str) -> dict[str, Any]:
        """GET /v2.0/security-group-rules/{id}"""
        with self.db.read() as c:
            return {"security_group_rule": _rule(security_groups.get_rule(c, rule_id, scope(req)))}

    def create_rule(self, req: Request) -> dict[str, Any]:
        """POST /v2.0/security-group-rules: one, or a list of which all are made or none"""
        given = req.json_object().get("security_group_rules")
        if given is None:
            [made] = self._add_rules(req, [body_of(req, "security_group_rule")])
            return {"security_group_rule": _rule(made)}
        if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
            raise exception.InvalidInput(reason="security_group_rules must be a list of objects")
        return {"security_group_rules": [_rule(made) for made in self._add_rules(req, given)]}

    def _add_rules(self, req: Request, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._changes.ensure_default(req.token.project_id)
        for body in given:
            for key in ("direction", "ethertype", "remote_ip_prefix", "remote_group_id", "description"):
                fields.text(body, key)
        wanted = [(fields.needed(body, "security_group_id"), parse(body)) for body in given]
        return as_neutron_answers(self._changes.add_rules, wanted, scope(req))

    def delete_rule(self, req: Request, rule_id: str) -> webob.Response:
        """DELETE /v2.0/security-group-rules/{id}"""
        self._changes.delete_rule(rule_id, scope(req))
        return webob.Response(status=204, content_type=None)


def _common(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["uuid"], "project_id": row["project_id"], "tenant_id": row["project_id"],
            "description": row["description"], "created_at": units.isotime(row["created_at"]),
            "updated_at": units.isotime(row["updated_at"] or row["created_at"]), "revision_number": 1, "tags": []}


def _group(row: dict[str, Any]) -> dict[str, Any]:
    return {**_common(row), "name": row["name"], "stateful": True, "shared": False,
            "security_group_rules": [_rule(rule) for rule in row["rules"]]}


def _rule(row: dict[str, Any]) -> dict[str, Any]:
    return {**_common(row), "security_group_id": row["group_uuid"], "direction": row["direction"],
            "ethertype": row["ethertype"], "protocol": row["protocol"], "port_range_min": row["port_min"],
            "port_range_max": row["port_max"], "remote_ip_prefix": row["remote_cidr"], "normalized_cidr": row["remote_cidr"],
            "remote_group_id": row["remote_group_uuid"], "remote_address_group_id": None}
