"""A move of a server to another host, or to another size on the same one, as the database has it and as it crosses RPC."""
from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from nova_lite.objects.base import Record
from nova_lite.objects.flavor import Flavor

# migration_type
RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION = "resize", "migration", "live-migration", "evacuation"

# status, as clients see it: of an open move ...
ACCEPTED, QUEUED, PREPARING, RUNNING = "accepted", "queued", "preparing", "running"
PRE_MIGRATING, MIGRATING, POST_MIGRATING = "pre-migrating", "migrating", "post-migrating"
FINISHED, CONFIRMING, REVERTING = "finished", "confirming", "reverting"
# ... and at its end
DONE, COMPLETED, CONFIRMED, REVERTED = "done", "completed", "confirmed", "reverted"
ERROR, FAILED, CANCELLED = "error", "failed", "cancelled"
REVERT_BEGUN = "revert_begun"       # in ``facts``: a revert may have removed the guest from where it went
UNDO_BEGUN = "undo_begun"           # in ``facts``: why the new host of a cold move removes what it has of the guest
WENT_ON = "went_on"                 # in ``facts``: the guest runs at its new host, without all of its memory
LOST = "lost"                       # in the arguments of its action: why the memory of such a guest is lost
ENDED_WELL = (DONE, COMPLETED, CONFIRMED, REVERTED)
ENDED = (*ENDED_WELL, ERROR, FAILED, CANCELLED)


@dataclass
class Migration(Record):
    """One row of ``migrations``. Until it has ended, ``uuid`` holds the room of the old place, the server's that of
    the new.

    ``disk_*`` and ``memory_*`` are bytes; None before the copy has begun.
    """

    id: int
    uuid: str
    instance_uuid: str
    migration_type: str
    status: str
    source_compute: str | None = None
    source_node: str | None = None
    dest_compute: str | None = None
    dest_node: str | None = None
    dest_host: str | None = None          # an address
    old_flavor: Flavor | None = None
    new_flavor: Flavor | None = None
    facts: dict[str, Any] | None = None   # messages between the hosts, such as the state of the server before
    memory_total: int | None = None
    memory_processed: int | None = None
    memory_remaining: int | None = None
    disk_total: int | None = None
    disk_processed: int | None = None
    disk_remaining: int | None = None
    user_id: str | None = None
    project_id: str | None = None
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None

    def __post_init__(self) -> None:
        if isinstance(self.old_flavor, dict):
            self.old_flavor = Flavor.from_primitive(self.old_flavor)
        if isinstance(self.new_flavor, dict):
            self.new_flavor = Flavor.from_primitive(self.new_flavor)

    @property
    def reverting(self) -> bool:
        """True from when a revert began to take the guest away, also when it was given up."""
        return bool((self.facts or {}).get(REVERT_BEGUN))

    @property
    def went_on(self) -> bool:
        """True once the guest of a live migration runs at its new host: its disks are there from then on."""
        return bool((self.facts or {}).get(WENT_ON))

    @property
    def has_ended(self) -> bool:
        """True when nothing will happen to it any more."""
        return self.status in ENDED
