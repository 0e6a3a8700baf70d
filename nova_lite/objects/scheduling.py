"""The request of the conductor to the scheduler, and the answer."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nova_lite.objects.base import Record
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta


@dataclass
class RequestSpec(Record):
    """One request for a place for one or more equal servers.

    ``requested_destination`` is {"host", "node", "force"}: with force the filters are skipped, the claim is not.
    ``ignore_hosts`` are hosts on which the build has failed already. ``group`` is None or {"uuid", "policy", "rules"}.
    """

    flavor: Flavor
    project_id: str
    user_id: str = ""
    image: ImageMeta | None = None
    availability_zone: str | None = None
    requested_destination: dict[str, Any] | None = None
    ignore_hosts: list[str] = field(default_factory=list)
    scheduler_hints: dict[str, Any] = field(default_factory=dict)
    group: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.flavor, dict):
            self.flavor = Flavor.from_primitive(self.flavor)
        if isinstance(self.image, dict):
            self.image = ImageMeta.from_primitive(self.image)


@dataclass
class Selection(Record):
    """A host for one server. The first of an instance's list is claimed, the others are alternates without a claim."""

    host: str
    node: str
    compute_node_id: int
    availability_zone: str | None = None
