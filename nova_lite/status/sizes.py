"""Checks whether the services and the database are large enough for the hosts that report. The numbers: docs/scaling.md."""
from __future__ import annotations

from collections import Counter

from oslo_config import cfg

from nova_lite.db import capacity, services
from nova_lite.db.core import Database

HOSTS_PER_CONDUCTOR = 1500
"""Compute hosts for which one process of the conductor needs about half a core while nothing happens (docs/scaling.md)."""
LEAST_CACHED = 0.5      # part of the tables that the database server can keep in memory


def too_small(conf: cfg.ConfigOpts) -> list[str]:
    """What is too small, a sentence each. The number of workers is that of this machine's options, for all machines."""
    db = Database(conf)
    db.check()
    with db.read() as conn:
        found = [row for row in services.list_all(conn) if services.is_up(row, conf.compute.service_down_time)]
        server = capacity.read(conn)
    count = Counter(row["binary"] for row in found)
    hosts, needed = count[services.COMPUTE], -(-count[services.COMPUTE] // HOSTS_PER_CONDUCTOR)
    conductors = count[services.CONDUCTOR] * conf.conductor.workers
    schedulers = count[services.SCHEDULER] * conf.scheduler.workers
    told = []
    if conductors < needed:
        told.append(f"{hosts} hosts need {needed} processes of the conductor, and there are {conductors} ([conductor] workers)")
    if server is not None:
        told += _database(conf, server, conductors + schedulers + conf.api.workers + conf.metadata.workers)
    return told


def _database(conf: cfg.ConfigOpts, server: capacity.Capacity, processes: int) -> list[str]:
    told = []
    if server.max_connections < processes * conf.database.max_pool_size:
        told.append(f"the database server takes {server.max_connections} connections, and {processes} processes may open "
                    f"{conf.database.max_pool_size} each (max_connections of the server, [database] max_pool_size)")
    if server.cache_bytes < LEAST_CACHED * server.data_bytes:
        told.append(f"the database server keeps {server.cache_bytes >> 20} MiB in memory, and the tables have "
                    f"{server.data_bytes >> 20} MiB (innodb_buffer_pool_size, shared_buffers)")
    return told
