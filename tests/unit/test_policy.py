from __future__ import annotations

import collections
import os
import pathlib

import pytest
import yaml
from oslo_policy import generator

from nova_lite import conf as nova_conf
from nova_lite import exception, policy
from nova_lite.api.openstack import rules as api_rules
from nova_lite.context import RequestContext
from nova_lite.policies import base
from nova_lite.policy import Policy

SHOW, CREATE, ADMIN = ("os_compute_api:servers:show", "os_compute_api:servers:create", "os_compute_api:os-services:list")
MANAGER, KEYS, ANY = ("os_compute_api:os-migrate-server:migrate", "os_compute_api:os-keypairs:show", "os_compute_api:limits")
SERVICE, NOBODY = "os_compute_api:os-server-external-events:create", "compute:servers:resize:cross_cell"
RULES = (SHOW, CREATE, MANAGER, ADMIN, KEYS, ANY, SERVICE, NOBODY)
MINE = {"project_id": "p", "user_id": "u"}
OTHERS = {"project_id": "other", "user_id": "somebody"}


def who(*roles: str, **values) -> RequestContext:
    return RequestContext(**{"user_id": "u", "project_id": "p", "roles": list(roles), "overwrite": False, **values})


@pytest.fixture
def rules() -> Policy:
    return Policy(nova_conf.load([], config_files=[]), api_rules.installed())


def test_every_rule_of_nova_is_there_with_its_default():
    checks = collections.Counter(rule.check_str for rule in api_rules.list_rules() if rule.name not in _base())
    assert checks == {"rule:context_is_admin": 73, "rule:project_member_or_admin": 68, "rule:project_reader_or_admin": 42,
                      "rule:project_manager_or_admin": 6, "@": 5, "rule:service_or_admin": 4, "!": 1,
                      "rule:context_is_admin or user_id:%(user_id)s": 4}
    names = [rule.name for rule in api_rules.list_rules()]
    assert len(names) == len(set(names))


def _base() -> set[str]:
    return {rule.name for rule in base.list_rules()}


@pytest.mark.parametrize(("roles", "target", "allowed"), [
    (["admin"], OTHERS, {SHOW, CREATE, MANAGER, ADMIN, KEYS, ANY, SERVICE}),
    (["manager", "member", "reader"], MINE, {SHOW, CREATE, MANAGER, KEYS, ANY}),
    (["member", "reader"], MINE, {SHOW, CREATE, KEYS, ANY}),
    (["reader"], MINE, {SHOW, KEYS, ANY}),
    (["manager", "member", "reader"], OTHERS, {ANY}),
    (["service"], OTHERS, {ANY, SERVICE}),
    ([], MINE, {KEYS, ANY}),
])
def test_personas(rules: Policy, roles, target, allowed):
    context = who(*roles)
    assert {rule for rule in RULES if rules.can(context, rule, target, fatal=False)} == allowed
    # asked again, from memory
    assert {rule for rule in RULES if rules.can(context, rule, target, fatal=False)} == allowed


def test_the_target_is_the_callers_own_without_one(rules: Policy):
    assert rules.can(who("reader"), SHOW)


def test_a_refusal_names_the_rule(rules: Policy):
    with pytest.raises(exception.PolicyNotAuthorized, match=f"Policy doesn't allow {ADMIN} to be performed."):
        rules.can(who("reader"), ADMIN)


def test_an_unknown_rule_is_denied_even_to_the_admin(rules: Policy):
    assert not rules.can(who("admin"), "os_compute_api:nonsense", fatal=False)
    assert SHOW in rules
    assert "os_compute_api:nonsense" not in rules


def test_a_token_of_another_scope_is_denied(rules: Policy):
    assert not rules.can(who("admin", system_scope="all", project_id=None), ADMIN, OTHERS, fatal=False)


def test_memory_tells_callers_apart(rules: Policy):
    assert rules.can(who("reader"), SHOW, MINE)
    assert not rules.can(who(), SHOW, MINE, fatal=False)
    assert not rules.can(who("reader", project_id="q"), SHOW, MINE, fatal=False)
    assert not rules.can(who("reader"), SHOW, {**MINE, "project_id": "q"}, fatal=False)


def test_a_target_with_lists_is_allowed(rules: Policy):
    assert rules.can(who("reader"), SHOW, {**MINE, "tags": ["a"]})


def test_the_operators_file_wins_and_is_read_again(tmp_path, monkeypatch):
    file = tmp_path / "policy.yaml"
    file.write_text(f'"{ADMIN}": "role:auditor"\n')
    conf_file = tmp_path / "nova-lite.conf"
    conf_file.write_text(f"[oslo_policy]\npolicy_file = {file}\n")
    rules = Policy(nova_conf.load([], config_files=[str(conf_file)]), api_rules.installed())
    assert rules.can(who("auditor"), ADMIN)
    assert not rules.can(who("admin"), ADMIN, fatal=False)
    file.write_text(f'"{ADMIN}": "role:nobody or role:other"\n')
    os.utime(file, (2_000_000_000, 2_000_000_000))
    moment = policy.time.monotonic()
    monkeypatch.setattr(policy.time, "monotonic", lambda: moment + 2 * policy.REFRESH)
    assert not rules.can(who("auditor"), ADMIN, fatal=False)
    assert rules.can(who("other"), ADMIN)


def test_the_checked_in_sample_is_what_the_generator_makes(tmp_path):
    made = tmp_path / "policy.yaml"
    generator.generate_sample(["--namespace", "nova_lite", "--output-file", str(made)])
    sample = (pathlib.Path(__file__).parents[2] / "etc/nova_lite/policy.yaml").read_text()
    assert sample == made.read_text()
    assert yaml.safe_load(sample) is None
