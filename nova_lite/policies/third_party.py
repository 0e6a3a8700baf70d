"""The policy rules of other packages that add resources to the API (their ``oslo.policy.policies`` entry points)."""
from __future__ import annotations

import functools
from importlib import metadata

from oslo_policy import policy

from nova_lite import exception

EXTENSIONS = "nova_lite.api.v21.extensions"
_OURS = "nova-lite"


def list_rules() -> list[policy.RuleDefault]:
    """Those of all installed packages but ours. Raises ConfigError for rules that cannot be loaded."""
    found: list[policy.RuleDefault] = []
    for entry in _entries():
        try:
            found += entry.load()()
        except Exception as error:
            raise exception.ConfigError(reason=f"the policy rules of {_package(entry)} ({entry.value}) cannot be loaded: "
                                               f"{type(error).__name__}: {error}") from error
    return found


def namespaces() -> list[str]:
    """The names of their entry points, by which the tools of oslo.policy load them."""
    return sorted({entry.name for entry in _entries()})


@functools.cache
def _entries() -> list[metadata.EntryPoint]:
    """Read once: it takes 50 ms, and no package comes while a process runs."""
    extenders = {_package(entry) for entry in metadata.entry_points(group=EXTENSIONS)} - {_OURS}
    return [entry for entry in metadata.entry_points(group="oslo.policy.policies") if _package(entry) in extenders]


def _package(entry: metadata.EntryPoint) -> str:
    return entry.dist.name.lower().replace("_", "-") if entry.dist is not None else ""
