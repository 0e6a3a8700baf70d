"""nova-lite-policy: the sample of all rules, the check of an operator's file, and which rules a token passes."""
from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from logging import CRITICAL, getLogger
from typing import Any

import yaml
from oslo_config import cfg
from oslo_policy import generator
from oslo_policy import policy as oslo_policy

from nova_lite import exception
from nova_lite.api.openstack import rules as api_rules
from nova_lite.context import RequestContext
from nova_lite.policies import base, third_party
from nova_lite.policy import Policy

_REFERENCE = re.compile(r"(?<![\w:.%-])rule:([^\s()]+)")
DENIED = "!"


@dataclass(frozen=True)
class Command:
    """``nova-lite-policy <name>``: the function answers the exit status; ``arguments`` are those of add_argument."""

    name: str
    function: Callable[[cfg.ConfigOpts, argparse.Namespace], int]
    help: str
    arguments: tuple[tuple[str, dict[str, Any]], ...] = ()


def sample(_conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Every rule with its default, all commented out; to stdout without ``--output``."""
    third_party.list_rules()        # a package whose rules cannot be loaded is named
    options = [word for name in ("nova_lite", *third_party.namespaces()) for word in ("--namespace", name)]
    generator.generate_sample([*options, "--output-file", arguments.output] if arguments.output else options,
                              cfg.ConfigOpts())
    return 0


def check(conf: cfg.ConfigOpts, _arguments: argparse.Namespace) -> int:
    """Print what is wrong with the operator's files, a line each; status 1 when there is anything."""
    enforcer = _enforcer(conf)
    problems = list(find_problems(enforcer))
    for problem in problems:
        print(problem)
    for name in sorted(_redundant(enforcer)):
        print(f"note: {name} is the default and need not be in the file")
    if not problems:
        print(f"{len(enforcer.file_rules)} rules of the operator, nothing wrong.")
    return 1 if problems else 0


def allowed(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Print the rules that a caller passes on a target, or whether it passes the one of ``--rule`` (status 1: it does not)."""
    context = RequestContext(user_id=arguments.user, project_id=arguments.project, overwrite=False,
                             roles=[role for role in arguments.roles.split(",") if role])
    target = {"project_id": arguments.project, "user_id": arguments.user, **dict(map(_pair, arguments.target or []))}
    rules = _load(conf)
    names = [name for name in rules.enforcer.registered_rules if name not in _BASE]
    if arguments.rule and arguments.rule not in rules:
        raise exception.ConfigError(reason=f"there is no rule {arguments.rule}")
    passed = [name for name in ([arguments.rule] if arguments.rule else names)
              if rules.can(context, name, target, fatal=False)]
    print("\n".join(passed) or "denied")
    return 0 if passed or not arguments.rule else 1


def find_problems(enforcer: oslo_policy.Enforcer) -> Iterator[str]:
    """Unknown names, checks that cannot be parsed (they deny all callers), references to nothing, and circles."""
    known = {**enforcer.registered_rules, **enforcer.file_rules}
    base = {name for name in enforcer.file_rules if any(
        name in _references(rule) for other, rule in enforcer.file_rules.items() if other != name)}
    for name, rule in sorted(enforcer.file_rules.items()):
        if name not in enforcer.registered_rules and name not in base:
            yield f"{name}: no such rule"
        if str(rule.check) == DENIED and str(rule.check_str).strip() != DENIED:
            yield f"{name}: cannot be parsed, and so denies all callers: {rule.check_str}"
        for missing in sorted(_references(rule) - set(known)):
            yield f"{name}: refers to the rule {missing}, which does not exist"
        if _reaches_itself(name, known):
            yield f"{name}: refers to itself"


def _references(rule: oslo_policy.RuleDefault) -> set[str]:
    return set(_REFERENCE.findall(str(rule.check_str)))


def _reaches_itself(name: str, known: dict[str, oslo_policy.RuleDefault]) -> bool:
    seen: set[str] = set()
    waiting = _references(known[name])
    while waiting:
        other = waiting.pop()
        if other == name:
            return True
        if other not in seen and other in known:
            seen.add(other)
            waiting |= _references(known[other])
    return False


def _redundant(enforcer: oslo_policy.Enforcer) -> Iterator[str]:
    for name, rule in enforcer.file_rules.items():
        default = enforcer.registered_rules.get(name)
        if default is not None and str(default.check) == str(rule.check):
            yield name


def _load(conf: cfg.ConfigOpts) -> Policy:
    getLogger("oslo_policy").setLevel(CRITICAL)     # its log messages are printed by this command
    try:
        return Policy(conf, api_rules.installed())
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        raise exception.ConfigError(reason=f"{conf.oslo_policy.policy_file}: {error}") from error


def _enforcer(conf: cfg.ConfigOpts) -> oslo_policy.Enforcer:
    """Raises ConfigError for a file that the options name and that is not there. Without either the defaults hold."""
    enforcer = _load(conf).enforcer
    location = conf.get_location("policy_file", "oslo_policy")
    if location is not None and location.location.is_user_controlled and conf.find_file(conf.oslo_policy.policy_file) is None:
        raise exception.ConfigError(reason=f"[oslo_policy] policy_file = {conf.oslo_policy.policy_file} was not found")
    return enforcer


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise exception.ConfigError(reason=f"--target takes name=value, not {text}")
    return name, value


_BASE = {rule.name for rule in base.list_rules()}
COMMANDS = (
    Command("sample", sample, "print all rules with their defaults, as a policy.yaml to start from", (
        ("--output", {"default": "", "help": "a file instead of stdout"}),)),
    Command("check", check, "find mistakes in the operator's policy.yaml"),
    Command("allowed", allowed, "print the rules that a caller passes", (
        ("--roles", {"required": True, "help": "separated by commas, as a token lists them: member,reader"}),
        ("--project", {"default": "project", "help": "the id of the caller's project ('project')"}),
        ("--user", {"default": "user", "help": "the id of the caller ('user')"}),
        ("--target", {"action": "append", "help": "project_id=... or user_id=... of the resource, when not the caller's"}),
        ("--rule", {"default": "", "help": "only this one"}))),
)


def add_parsers(subparsers: Any) -> None:
    """Add every command to oslo.config's sub-commands."""
    for command in COMMANDS:
        one = subparsers.add_parser(command.name, help=command.help)
        one.set_defaults(function=command.function)
        for flag, options in command.arguments:
            one.add_argument(flag, **options)
