"""Copies Keystone's unified limits into the table of quotas. So a request is checked in its own transaction, and does not wait
for Keystone. While Keystone is away, the last limits apply.
"""
from __future__ import annotations

from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.db import quotas
from nova_lite.db.core import Database

LOG = log.getLogger(__name__)
INTERVAL = 30           # seconds between two copies


class LimitsMirror:
    """Does nothing unless ``[quota] driver`` is keystone. One conductor copies."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database) -> None:
        self._conf, self._db = conf, db
        self._limits: Callable[[], dict[str, dict[str, int]]] | None = None

    def run(self) -> None:
        """Copy the limits that have changed."""
        if self._conf.quota.driver != quotas.KEYSTONE:
            return
        if self._limits is None:
            from nova_lite.identity.limits import UnifiedLimits

            self._limits = UnifiedLimits(self._conf).read
        try:
            changed = self._db.write(quotas.mirror, self._limits())
        except exception.ServiceUnavailable as error:
            LOG.warning("the limits stay as they were: %s", error)
            return
        if changed:
            LOG.info("Keystone's limits have changed: %s rows", changed)
