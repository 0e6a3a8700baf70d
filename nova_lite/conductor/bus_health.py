"""Whether a conductor receives the reports of compute hosts, and since when."""
from __future__ import annotations

import datetime
import time
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log

from nova_lite import units
from nova_lite.db import services
from nova_lite.db.core import Database

LOG = log.getLogger(__name__)
LOOK_SECONDS = 2.0      # the hosts in a scheduler's memory may be this much older than the request


class BusHealth:
    """Since when this conductor has received the reports of hosts without a break.

    When the broker, the database or the conductor itself was away, every host seems to be silent. So each host gets
    ``service_down_time`` to report again before its silence counts.
    """

    def __init__(self, conf: cfg.ConfigOpts, db: Database, ping: Callable[[float], None]) -> None:
        self._conf, self._db, self._ping = conf, db, ping
        self._interval = conf.compute.report_interval
        self._two_reports = 2 * self._interval + 1
        self.since = self._last = time.monotonic()

    def check(self) -> None:
        """Send a message to this conductor itself, each ``report_interval``, and write down that it has come: the API needs to
        know. Raises the errors of the message bus and of the database."""
        self._ping(self._interval)
        now = time.monotonic()
        if self._is_old(now):
            LOG.info("the message bus works again")
            self.since = now
        self._last = now
        self._db.write(services.listened, self._conf.host, now - self.since, services.MISSED_REPORTS * self._interval)

    def grace(self) -> float:
        """Seconds that hosts still have to report; 0.0: a host that is silent now is dead."""
        due = max(self._conf.compute.service_down_time, self._two_reports)
        return max(0.0, due - self.heard_for())

    def heard_for(self) -> float:
        """Seconds for which this conductor has received reports without a break; 0.0: it does not receive any now."""
        now = time.monotonic()
        return 0.0 if self._is_old(now) else now - self.since

    def is_steady(self) -> bool:
        """Whether this conductor has received reports for two intervals. Most living hosts have reported by then; the others
        still have :meth:`grace`."""
        return self.heard_for() >= self._two_reports

    def hosts_may_report(self, asked_at: datetime.datetime) -> bool:
        """Whether a scheduler that was asked at ``asked_at`` may have found no host only because hosts have not reported yet
        since an outage: a host is silent, or, before :meth:`is_steady`, a host has reported after the scheduler read it."""
        if not self.grace():
            return False
        seconds = 0.0 if self.is_steady() else (units.utcnow() - asked_at).total_seconds() + LOOK_SECONDS
        with self._db.read() as conn:
            return services.hosts_may_report(conn, self._conf.compute.service_down_time, seconds)

    def _is_old(self, now: float) -> bool:
        return now - self._last > services.MISSED_REPORTS * self._interval
