"""The policy rules of the API, collected from the modules of its resources.

A rule is part of the row of a route (``Route.policy``). A rule that only handlers check is in the list ``RULES`` of its module.
The names are those of Nova, so an operator's policy.yaml can be used unchanged. A package that extends the API adds its rules
in the same way, or by an entry point ``oslo.policy.policies`` of its own.
"""
from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

from oslo_policy import policy

from nova_lite import conf as nova_lite_conf
from nova_lite import exception
from nova_lite.api.openstack import registry
from nova_lite.policies import base, third_party
from nova_lite.policy import Policy


def list_rules(modules: Iterable[ModuleType] | None = None) -> list[policy.RuleDefault]:
    """The base rules and those of all resource modules; also the entry point ``oslo.policy.policies``."""
    basic = base.list_rules()
    found: dict[str, base.Rule] = {}
    names, operations = {rule.name for rule in basic}, dict[str, list[str]]()
    for module in registry.load_modules() if modules is None else modules:
        routes = registry.routes_of(module)
        for rule in (*(route.policy for route in routes), *getattr(module, "RULES", ())):
            if isinstance(rule, base.Rule) and (rule.name in names or found.setdefault(rule.name, rule) != rule):
                raise _given_twice(rule.name)
        for route in routes:
            if route.rule is not None:
                operations.setdefault(route.rule, []).append(route.operation)
    return [*basic, *(rule.default(operations.get(name, ())) for name, rule in found.items())]


def installed(modules: Iterable[ModuleType] | None = None) -> list[policy.RuleDefault]:
    """The same, and what entry points of other packages add."""
    found = {rule.name: rule for rule in list_rules(modules)}
    for rule in third_party.list_rules():
        if found.setdefault(rule.name, rule).check_str != rule.check_str:
            raise _given_twice(rule.name)
    return list(found.values())


def get_enforcer() -> policy.Enforcer:
    """The enforcer for oslo.policy's own commands (oslopolicy-list-redundant and the like); they parse the command line."""
    argv = [word for word in sys.argv[1:] if word.startswith("--config")]
    return Policy(nova_lite_conf.load(argv), installed()).enforcer


def _given_twice(name: str) -> exception.ConfigError:
    return exception.ConfigError(reason=f"two API extensions give the policy {name} different defaults")
