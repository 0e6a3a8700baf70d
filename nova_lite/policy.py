"""Policy: may this caller do that? oslo.policy with the defaults of ``nova_lite.policies`` and the operator's policy.yaml."""
from __future__ import annotations

import sys
from typing import Any

from oslo_config import cfg
from oslo_policy import opts, policy

from nova_lite import conf as nova_lite_conf
from nova_lite import exception, policies
from nova_lite.context import RequestContext

_CREDENTIALS = "_policy_credentials"


class Policy:
    """The rules of one process; a changed policy.yaml is read again by itself."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        opts.set_defaults(conf, policy_file="policy.yaml")
        self.enforcer = policy.Enforcer(conf)
        self.enforcer.register_defaults(policies.list_rules())
        self.enforcer.load_rules()

    def __contains__(self, rule: str) -> bool:
        return rule in self.enforcer.registered_rules

    def can(self, context: RequestContext, rule: str, target: dict[str, Any] | None = None, fatal: bool = True) -> bool:
        """Whether ``context`` passes ``rule`` on ``target`` (project_id and user_id of the resource; None: its own).

        A rule that nobody registered is denied. Raises PolicyNotAuthorized when ``fatal``.
        """
        if target is None:
            target = {"project_id": context.project_id, "user_id": context.user_id}
        try:
            allowed = bool(self.enforcer.enforce(rule, target, credentials(context)))
        except policy.InvalidScope:
            allowed = False
        if not allowed and fatal:
            raise exception.PolicyNotAuthorized(action=rule)
        return allowed


def credentials(context: RequestContext) -> dict[str, Any]:
    """What rules may look at, worked out once per context."""
    known = context.__dict__.get(_CREDENTIALS)
    if known is None:
        known = dict(context.to_policy_values())
        context.__dict__[_CREDENTIALS] = known
    return known


def get_enforcer() -> policy.Enforcer:
    """The enforcer for oslo.policy's own commands (oslopolicy-list-redundant and the like); they parse the command line."""
    argv = [word for word in sys.argv[1:] if word.startswith("--config")]
    return Policy(nova_lite_conf.load(argv)).enforcer
