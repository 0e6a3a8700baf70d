"""Notifies hosts that the security groups of their guests, or the members of the groups, have changed. The hosts then read the
rules.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Collection

from oslo_log import log

from nova_lite.context import admin_context
from nova_lite.db import port_groups
from nova_lite.db.core import Database
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.wakeups import Wakeups

LOG = log.getLogger(__name__)
PAUSE = 0.5
"""Seconds between two notifications: all changes in between, as when many servers are built, are sent as one."""


class SecurityGroupNotifier:
    """``db.group_changes.Tell``, with a thread of its own. A host that misses a notification reads the rules within a
    minute."""

    def __init__(self, db: Database, compute: ComputeAPI) -> None:
        self._db, self._compute, self._wakeups = db, compute, Wakeups()
        self._lock = threading.Lock()
        self._changed = _nothing()

    def __call__(self, group_ids: Collection[str] = (), hosts: Collection[str] = (), networks: Collection[str] = ()) -> None:
        """``group_ids``: groups whose rules or members have changed. ``networks``: networks in which an address was
        assigned."""
        with self._lock:
            waits = any(self._changed)
            for known, more in zip(self._changed, (group_ids, hosts, networks), strict=True):
                known.update(more)
            if waits or not any(self._changed):
                return
        self._wakeups.send(self._tell)

    def _tell(self) -> None:
        with self._lock:
            (groups, hosts, networks), self._changed = self._changed, _nothing()
        with self._db.read() as c:
            told = hosts | port_groups.hosts_of(c, groups, networks)
        LOG.debug("security groups: notifying %s hosts", len(told))
        for host in sorted(told):
            self._compute.refresh_security_rules(admin_context(), host)
        time.sleep(PAUSE)


def _nothing() -> tuple[set[str], set[str], set[str]]:
    return set(), set(), set()
