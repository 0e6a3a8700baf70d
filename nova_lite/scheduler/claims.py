"""From a choice to a claim: choose, claim in the database, and choose again for those who lost a race."""
from __future__ import annotations

import random
from collections.abc import Sequence

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.db import claims as db_claims
from nova_lite.db import core, pci_devices
from nova_lite.objects.scheduling import RequestSpec, Selection
from nova_lite.scheduler import plugins
from nova_lite.scheduler.host_table import HostTable
from nova_lite.scheduler.request import Request, hinted_uuids
from nova_lite.scheduler.select import Plan, select
from nova_lite.scheduler.snapshot import Snapshot

LOG = log.getLogger(__name__)
ROUNDS = 12     # each round but the first means that other schedulers were faster
FRESH = 1.0     # seconds for which a full read of the host table counts as the truth


class Placer:
    """Places all instances of a request or none of them."""

    def __init__(self, conf: cfg.ConfigOpts, db: core.Database) -> None:
        self._conf, self._db = conf, db
        self.table = HostTable(conf)
        self._filters = plugins.load_filters(conf)
        self._weighers = plugins.load_weighers(conf)
        self._chance = random.Random()
        self.has_peers = False
        """Whether other schedulers choose at the same time. Then each begins with another one of equal hosts, so that they
        do not all ask the database for the same one."""

    def place(self, spec: RequestSpec, instance_uuids: Sequence[str]) -> dict[str, list[Selection]]:
        """instance uuid -> its host, whose room is claimed, and alternates, whose room is not. Raises NoValidHost. Can be run
        again: the claims of an interrupted run are released first."""
        with self._db.read() as conn:
            left_over = db_claims.held_without_host(conn, instance_uuids)
        if left_over:       # read again under a lock: another attempt may be writing their hosts
            self._db.write(db_claims.release_without_host, left_over)
        chosen: dict[str, list[Selection]] = {}
        try:
            self._place(spec, instance_uuids, chosen)
        except BaseException:
            if chosen:
                self._db.write(db_claims.release_unplaced, {
                    uuid: (first.compute_node_id, first.host, first.node) for uuid, (first, *_) in chosen.items()})
            raise
        return chosen

    def _place(self, spec: RequestSpec, instance_uuids: Sequence[str], chosen: dict[str, list[Selection]]) -> None:
        refused: set[int] = set()
        barred: set[int] = set()
        reason = ""
        for _ in range(ROUNDS):
            missing = [uuid for uuid in instance_uuids if uuid not in chosen]
            plan = self._plan(spec, missing, frozenset(barred))
            reason = plan.reason()
            if len(plan.choices) < len(missing):
                break
            lost = self._claim(spec, dict(zip(missing, plan.choices, strict=True)), chosen)
            if not lost:
                return
            barred |= lost & refused    # seemed to have room although it was read again: do not ask a third time
            refused |= lost
            LOG.debug("%d of %d claims were refused on nodes %s", len(instance_uuids) - len(chosen), len(missing), lost)
            with self._db.read() as conn:
                self.table.reload(conn, lost)
        raise exception.NoValidHost(reason=reason)

    def _plan(self, spec: RequestSpec, missing: Sequence[str], barred: frozenset[int]) -> Plan:
        count = len(missing)
        with self._db.read() as conn:
            snapshot = self.table.snapshot(conn)
            request = look_up(conn, spec, missing, barred)
            plan = self._select(snapshot, request, count)
            if len(plan.choices) < count and self.table.seconds_since_full > FRESH:
                # never refuse because of what the table may have missed
                plan = self._select(self.table.snapshot(conn, full=True), request, count)
        return plan

    def _select(self, snapshot: Snapshot, request: Request, count: int) -> Plan:
        options = self._conf.scheduler
        first = self._chance.randrange(snapshot.size) if self.has_peers and snapshot.size else 0
        return select(snapshot, request, count, self._filters, self._weighers, alternates=options.max_attempts - 1,
                      subset_size=options.host_subset_size, chance=self._chance, first=first)

    def _claim(self, spec: RequestSpec, choices: dict[str, list[Selection]], chosen: dict[str, list[Selection]]) -> set[int]:
        """Claim the first host of each; adds to ``chosen`` what was granted and returns the nodes that refused."""
        flavor = spec.flavor
        wanted = [db_claims.Claim.of(uuid, hosts[0].compute_node_id, flavor) for uuid, hosts in choices.items()]
        granted = self._db.write(db_claims.claim_many, wanted, spec.group)
        chosen.update((uuid, hosts) for uuid, hosts in choices.items() if uuid in granted)
        return {one.node_id for one in wanted if one.instance_uuid not in granted}


def look_up(conn: sa.Connection, spec: RequestSpec, moving: Sequence[str], barred: frozenset[int] = frozenset()) -> Request:
    """The request, with the facts that the filters need. ``moving``: instances that look for a place; their present hosts do
    not count for their group."""
    group_hosts: dict[str, int] = {}
    if spec.group:
        hosts = {h: members.difference(moving) for h, members in db_claims.group_hosts(conn, spec.group).items()}
        group_hosts = {host: len(members) for host, members in hosts.items() if members}
    near, far = hinted_uuids(spec, "same_host"), hinted_uuids(spec, "different_host")
    devices = pci_devices.free(conn) if spec.flavor.pci_requests else {}
    return Request(spec=spec, pci_free=devices, group_hosts=group_hosts, barred_nodes=barred,
                   same_hosts=None if near is None else frozenset(db_claims.hosts_of(conn, near)),
                   different_hosts=None if far is None else frozenset(db_claims.hosts_of(conn, far)))
