"""Policy: may this caller do that? oslo.policy with the defaults that it is given and the operator's policy.yaml."""
from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_policy import opts, policy

from nova_lite import exception
from nova_lite.context import RequestContext

REFRESH = 1.0
"""Seconds between two looks at the policy files; decisions are remembered no longer than that."""
REMEMBERED = 10_000
_CREDENTIALS = "_policy_credentials"

Key = tuple[tuple[str, Any], ...]


class Policy:
    """The rules of one process; a changed policy.yaml is read again automatically.

    Each check of oslo.policy examines its files and the signature of the check: 0.3 ms, a hundred times for a list of a hundred
    servers. So the files are examined once a second, and results are cached until then.
    """

    def __init__(self, conf: cfg.ConfigOpts, rules: Sequence[policy.RuleDefault]) -> None:
        opts.set_defaults(conf, policy_file="policy.yaml")
        self.enforcer = policy.Enforcer(conf)
        self.enforcer.register_defaults(rules)
        self._lock = threading.Lock()
        self._next_refresh = 0.0
        self._decisions: dict[tuple[str, Key, Key], bool] = {}
        self._refresh()

    def __contains__(self, rule: str) -> bool:
        return rule in self.enforcer.registered_rules

    def can(self, context: RequestContext, rule: str, target: dict[str, Any] | None = None, fatal: bool = True) -> bool:
        """Whether ``context`` passes ``rule`` on ``target`` (project_id and user_id of the resource; None: its own). An unknown
        rule is denied. Raises PolicyNotAuthorized when ``fatal``."""
        if time.monotonic() >= self._next_refresh:
            self._refresh()
        if target is None:
            target = {"project_id": context.project_id, "user_id": context.user_id}
        allowed = self._decide(rule, target, context)
        if not allowed and fatal:
            raise exception.PolicyNotAuthorized(action=rule)
        return allowed

    def set_admin(self, context: RequestContext) -> None:
        """``is_admin`` as the rule ``context_is_admin`` has it, which an operator may have given another role."""
        is_admin = self.can(context, "context_is_admin", fatal=False)
        if is_admin != context.is_admin:
            context.is_admin = is_admin
            context.__dict__.pop(_CREDENTIALS, None)

    def _decide(self, rule: str, target: dict[str, Any], context: RequestContext) -> bool:
        values, identity = credentials(context)
        decisions = self._decisions
        key = rule, identity, tuple(target.items())
        try:
            known = decisions.get(key)
        except TypeError:  # a target with a list in it
            return self._enforce(rule, target, values)
        if known is None:
            known = self._enforce(rule, target, values)
            if len(decisions) < REMEMBERED:
                decisions[key] = known
        return known

    def _enforce(self, rule: str, target: dict[str, Any], values: dict[str, Any]) -> bool:
        try:
            return bool(self.enforcer.enforce(rule, target, dict(values)))
        except policy.InvalidScope:
            return False

    def _refresh(self) -> None:
        with self._lock:
            self._next_refresh = time.monotonic() + REFRESH
            self.enforcer.use_conf = True
            self.enforcer.load_rules()
            # from here to the next refresh the enforcer leaves its files alone
            self.enforcer.use_conf = False
            self._decisions = {}


def credentials(context: RequestContext) -> tuple[dict[str, Any], Key]:
    """The attributes that rules may use, and the same as a key; computed once per context."""
    known = context.__dict__.get(_CREDENTIALS)
    if known is None:
        values = dict(context.to_policy_values())
        identity = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in values.items())
        known = context.__dict__[_CREDENTIALS] = (values, identity)
    return known
