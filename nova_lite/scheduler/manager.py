"""The scheduler's side of its RPC."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.db import clock, cloud, core, services
from nova_lite.objects.scheduling import RequestSpec
from nova_lite.rpc import cloud_id
from nova_lite.runtime.rpc_callers import ANYBODY, WAKE_UP, WINDOW, Callers
from nova_lite.runtime.rpc_senders import Senders
from nova_lite.scheduler.claims import Placer

LOG = log.getLogger(__name__)
FULL_READ_INTERVAL = 60.0
RULES = {"select_destinations": WAKE_UP, "cloud": ANYBODY}      # a repetition of the call releases what was claimed


class SchedulerManager:
    """Answers ``select_destinations``. Any number of processes may run one; the claims in the database keep them apart."""

    def __init__(self, conf: cfg.ConfigOpts, transport: messaging.RPCTransport | None = None) -> None:
        self.conf = conf
        self.db = core.Database(conf)
        self._placer = Placer(conf, self.db)
        self.callers = Callers(conf, RULES, Senders(conf, self.db), self._cloud)
        self.endpoints = self.callers.before([self, cloud_id.Member(conf.host, self._cloud)])

    def start(self) -> None:
        """Read the hosts, so that the first request need not wait for it, and say that this scheduler lives."""
        self._register()
        self._read_everything()

    def stop(self) -> None:
        """Close the database connections."""
        self.db.dispose()

    def periodics(self) -> list[tuple[float, Callable[[], None]]]:
        """(seconds, function) of what has to be run again and again."""
        return [(FULL_READ_INTERVAL, self._read_everything), (self.conf.compute.report_interval, self._register),
                (WINDOW, self.callers.forget)]

    def _cloud(self) -> str | None:
        with self.db.read() as conn:
            return cloud.find_id(conn)

    def _register(self) -> None:
        self.db.write(services.heard_from, self.conf.host, services.SCHEDULER)
        with self.db.read() as conn:
            schedulers = services.list_all(conn, binary=services.SCHEDULER)
        alive = sum(services.is_up(one, self.conf.compute.service_down_time) for one in schedulers)
        self._placer.has_peers = alive > 1 or self.conf.scheduler.workers > 1     # which have one record

    def _read_everything(self) -> None:
        with self.db.read() as conn:
            self._placer.table.snapshot(conn, full=True)
        clock.watch(self.db)

    @messaging.expected_exceptions(exception.NoValidHost)
    def select_destinations(self, context: RequestContext, request_spec: dict[str, Any],
                            instance_uuids: list[str]) -> dict[str, Any]:
        """{"selections": {uuid: [claimed host, alternate, ...]}} for all instances; raises NoValidHost for all of them."""
        started = time.monotonic()
        first = {"instance_uuid": instance_uuids[0]} if len(instance_uuids) == 1 else {}
        try:
            chosen = self._placer.place(RequestSpec.from_primitive(request_spec), instance_uuids)
        except exception.NoValidHost as error:
            LOG.info("no place for %d servers: %s", len(instance_uuids), error, extra=first)
            raise
        LOG.info("%d servers placed in %.1f ms on %s", len(chosen), (time.monotonic() - started) * 1000,
                 ", ".join(sorted({hosts[0].host for hosts in chosen.values()})[:5]), extra=first)
        return {"selections": {uuid: [host.to_primitive() for host in hosts] for uuid, hosts in chosen.items()}}
