"""Who may call which method of the conductor, in one table: compute hosts, control services (API, metadata service, console
proxies, scheduler, the conductor itself), or both.

A method that is not in the table is refused, whoever calls it. Whose a server is, the methods look at themselves, by
``context.caller`` (``concerns.py``, ``host_writes.py``).
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import oslo_messaging as messaging
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext

LOG = log.getLogger(__name__)
expected = messaging.expected_exceptions(exception.NovaLiteError)
Arguments = Mapping[str, Any]


def _of_nobody(_arguments: Arguments) -> Iterator[str]:
    return iter(())


def _host(arguments: Arguments) -> Iterator[str]:
    yield arguments["host"]


def _started(arguments: Arguments) -> Iterator[str]:
    yield arguments["host"]
    yield host_of(arguments["owner"])


def _report(arguments: Arguments) -> Iterator[str]:
    return _started(arguments["report"])


@dataclass(frozen=True)
class Rule:
    """``speaks_for``: the hosts for which a call speaks, by its arguments; they must be the caller."""

    by_hosts: bool = True
    by_control: bool = False
    speaks_for: Callable[[Arguments], Iterator[str]] = _of_nobody


_ANYBODY, _CONTROL, _BOTH = Rule(by_control=True), Rule(False, True), Rule(by_control=True)
RULES: dict[str, Rule] = {
    # what it answers is no secret
    "ping": _ANYBODY, "cloud": _ANYBODY,
    # the work of control services
    "schedule_and_build_instances": _CONTROL, "run_action": _CONTROL, "get_console_auth_token": _CONTROL,
    # the metadata service may run on each compute host: there it gets to know of the servers of that host only
    "instance_by_address": _BOTH, "instance_metadata": _BOTH, "set_server_password": _BOTH,
    # compute hosts, of themselves
    "heartbeat": Rule(speaks_for=_report), "host_started": Rule(speaks_for=_started),
    "power_state_changed": Rule(speaks_for=_host), "sync_power_states": Rule(speaks_for=_host),
    "not_wanted": Rule(speaks_for=_host), "settled_here": Rule(speaks_for=_host), "must_be_off": Rule(speaks_for=_host),
    "network_info_changed": Rule(speaks_for=_host), "share_is_used": Rule(speaks_for=_host),
    "list_host_ports": Rule(speaks_for=_host), "allocate_ports": Rule(speaks_for=_host),
    # compute hosts, of servers and actions that are their business
    "steps": Rule(), "get_instance": Rule(), "list_networks": Rule(), "release_ports": Rule(), "release_port": Rule(),
    "move_ports": Rule(), "list_server_ports": Rule(), "rules_for": Rule(),
}


def host_of(owner: str) -> str:
    """The host of the process that holds a lease: see ``compute/leases.py``."""
    return owner.rsplit(":", 2)[0]


class Callers:
    """Stands before the endpoints of the conductor."""

    def before(self, endpoints: Sequence[object]) -> list[object]:
        """The endpoints, with each call looked at first."""
        return [_Door(self, endpoint) for endpoint in endpoints]

    @expected
    def admit(self, context: RequestContext, method: str, arguments: Arguments) -> None:
        """Find out who calls, and note it with the context. Raises HostNotAllowed."""
        rule, said = RULES.get(method, Rule(False, False)), context.sender or {}
        host = said.get("host")
        try:
            if host is not None:
                self._check_host(host, rule, method, arguments)
            elif not rule.by_hosts and not rule.by_control:
                raise exception.HostNotAllowed(host="(none)", reason=f"{method} is nobody's to call")
        except exception.HostNotAllowed as error:
            LOG.warning("refused a call of %s: %s", method, error)
            raise
        context.caller = host

    @staticmethod
    def _check_host(host: str, rule: Rule, method: str, arguments: Arguments) -> None:
        if not rule.by_hosts:
            raise exception.HostNotAllowed(host=host, reason=f"{method} is not for compute hosts")
        for other in rule.speaks_for(arguments):
            if other != host:
                raise exception.HostNotAllowed(host=host, reason=f"it speaks for host {other}")


class _Door:
    """One endpoint; what oslo.messaging calls on it goes through :meth:`Callers.admit`."""

    def __init__(self, callers: Callers, endpoint: object) -> None:
        self._callers, self._endpoint = callers, endpoint

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._endpoint, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(context: RequestContext, **arguments: Any) -> Any:
            self._callers.admit(context, name, arguments)
            return found(context, **arguments)
        return call
