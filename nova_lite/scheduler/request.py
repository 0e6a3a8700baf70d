"""The request to the scheduler, with all facts that the filters need: they do no I/O."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.hardware.pci import Pool
from nova_lite.objects.scheduling import RequestSpec

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = "soft-affinity", "soft-anti-affinity"


@dataclass(frozen=True)
class Request:
    """A RequestSpec and the facts that belong to it.

    ``group_hosts`` counts, for each host, the group's members that are not part of this request. ``same_hosts`` and
    ``different_hosts`` are the hosts of the servers that the hints name (None: no such hint). ``barred_nodes`` are ids of
    nodes whose claim failed although they seemed to have room. ``pci_free``: pool -> (node id, number of free devices), when
    the flavor asks for devices.
    """

    spec: RequestSpec
    group_hosts: Mapping[str, int] = field(default_factory=dict)
    same_hosts: frozenset[str] | None = None
    different_hosts: frozenset[str] | None = None
    barred_nodes: frozenset[int] = frozenset()
    pci_free: Mapping[Pool, Sequence[tuple[int, int]]] = field(default_factory=dict)

    @property
    def vcpus(self) -> int:
        """vCPUs of one instance."""
        return self.spec.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        """MiB of memory of one instance."""
        return self.spec.flavor.memory_mb

    @property
    def disk_gb(self) -> int:
        """GiB of disk of one instance."""
        return self.spec.flavor.disk_gb

    @property
    def group_policy(self) -> str | None:
        """The policy of the server group, if there is one."""
        return self.spec.group.get("policy") if self.spec.group else None

    @property
    def max_server_per_host(self) -> int:
        """How many members of an anti-affinity group may share a host."""
        rules: Mapping[str, Any] = (self.spec.group or {}).get("rules") or {}
        return int(rules.get("max_server_per_host", 1))

    @property
    def destination(self) -> Mapping[str, Any]:
        """{"host", "node", "force"} of the host that was asked for; empty when any will do."""
        return self.spec.requested_destination or {}

    @property
    def forced(self) -> bool:
        """True when the filters have to be skipped."""
        return bool(self.destination.get("host") or self.destination.get("node")) and bool(self.destination.get("force"))


def hinted_uuids(spec: RequestSpec, hint: str) -> list[str] | None:
    """The server uuids of the hint ``same_host`` or ``different_host``, one or a list of them; None without the hint."""
    value = spec.scheduler_hints.get(hint)
    if not value:
        return None
    return [value] if isinstance(value, str) else [str(v) for v in value]
