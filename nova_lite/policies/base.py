"""The base rules, and one constructor for each persona.

A :class:`Rule` is part of the row of a route, or of the list ``RULES`` of a resource's module. Keystone implies admin > manager
> member > reader. Each persona's rule also admits the admin, of any project.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oslo_policy import policy

_BASE = (
    ("context_is_admin", "role:admin", "Decides what makes an administrator."),
    ("admin_api", "rule:context_is_admin", "Default of the rules for administrators."),
    ("project_manager_api", "role:manager and project_id:%(project_id)s", "Default of the rules for project managers."),
    ("project_member_api", "role:member and project_id:%(project_id)s", "Default of the rules that change a project."),
    ("project_reader_api", "role:reader and project_id:%(project_id)s", "Default of the rules that read a project."),
    ("project_manager_or_admin", "rule:project_manager_api or rule:context_is_admin", "Project manager or administrator."),
    ("project_member_or_admin", "rule:project_member_api or rule:context_is_admin", "Project member or administrator."),
    ("project_reader_or_admin", "rule:project_reader_api or rule:context_is_admin", "Project reader or administrator."),
    ("service_api", "role:service", "Default of the rules for other services of the cloud."),
    ("service_or_admin", "rule:service_api or rule:context_is_admin", "Another service or administrator."),
)


def list_rules() -> list[policy.RuleDefault]:
    """The base rules. ``default`` denies whatever has no rule."""
    rules = [policy.RuleDefault("default", "!", "What no rule names is denied.")]
    return rules + [policy.RuleDefault(name, check, text) for name, check, text in _BASE]


@dataclass(frozen=True)
class Rule:
    """A rule of the API with its default check.

    ``operations`` are written ``"GET /path"`` or ``"POST /path (action)"``. The routes that name the rule need not stand there.
    """

    name: str
    check: str
    description: str
    operations: tuple[str, ...] = ()

    def default(self, operations: Iterable[str] = ()) -> policy.DocumentedRuleDefault:
        """The rule in the form of oslo.policy; ``operations`` are those of its routes."""
        pairs = [operation.partition(" ")[::2] for operation in dict.fromkeys((*operations, *self.operations))]
        return policy.DocumentedRuleDefault(self.name, self.check, self.description,
                                            [{"method": method, "path": path} for method, path in pairs],
                                            scope_types=["project"])


def admin(name: str, description: str, *operations: str) -> Rule:
    """A rule for administrators."""
    return Rule(name, "rule:context_is_admin", description, operations)


def manager(name: str, description: str, *operations: str) -> Rule:
    """A rule for the managers of a project."""
    return Rule(name, "rule:project_manager_or_admin", description, operations)


def member(name: str, description: str, *operations: str) -> Rule:
    """A rule for the members of a project."""
    return Rule(name, "rule:project_member_or_admin", description, operations)


def reader(name: str, description: str, *operations: str) -> Rule:
    """A rule for users who may read a project."""
    return Rule(name, "rule:project_reader_or_admin", description, operations)


def service(name: str, description: str, *operations: str) -> Rule:
    """A rule for other services."""
    return Rule(name, "rule:service_or_admin", description, operations)


def owner(name: str, description: str, *operations: str) -> Rule:
    """A rule for resources that belong to a user."""
    return Rule(name, "rule:context_is_admin or user_id:%(user_id)s", description, operations)


def anyone(name: str, description: str, *operations: str) -> Rule:
    """A rule for every authenticated caller."""
    return Rule(name, "@", description, operations)


def nobody(name: str, description: str, *operations: str) -> Rule:
    """A rule that an operator must open first."""
    return Rule(name, "!", description, operations)
