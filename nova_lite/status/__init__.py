"""nova-lite-status: is this deployment fit to run? One function per check."""
from __future__ import annotations

from collections.abc import Callable

from oslo_config import cfg
from sqlalchemy.exc import SQLAlchemyError

from nova_lite import exception
from nova_lite.db.core import Database
from nova_lite.runtime import checks

SUCCESS, WARNING, FAILURE = "Success", "Warning", "Failure"
AGGREGATE_FILTER, AGGREGATE_SPECS = "AggregateInstanceExtraSpecsFilter", "aggregate_instance_extra_specs:"


def database(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """Reachable, and its schema the newest."""
    checks.check_database(conf)
    return SUCCESS, "reachable and at the newest schema"


def keys(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """Secrets in the database can be stored and read."""
    from nova_lite.db import actions

    try:
        checks.check_secret_keys(conf)
    except exception.ConfigError as error:      # a scheduler runs without them
        return WARNING, error.message
    with Database(conf).read() as connection:
        waiting = actions.unreadable(connection)
    if waiting:
        return FAILURE, f"{len(waiting)} open action(s) have secrets that no key of {conf.database.secret_keys_file} opens"
    return SUCCESS, "there"


def own_clock(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """The same as the database's, by which hosts are taken for dead."""
    from nova_lite.db import clock

    db = Database(conf)
    db.check()
    with db.read() as connection:
        seconds = clock.ahead(connection)
    if abs(seconds) <= clock.TOLERATED:
        return SUCCESS, "as the database's"
    return (FAILURE if abs(seconds) > clock.WRONG else WARNING), f"{clock.describe(seconds)}; is NTP running?"


def broker(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """Reachable with the given user."""
    checks.check_broker(conf)
    return SUCCESS, "reachable"


def control(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """At least one conductor and one scheduler report: without them each request waits."""
    from nova_lite.db import services

    needed = {services.CONDUCTOR, services.SCHEDULER}
    db = Database(conf)
    db.check()
    with db.read() as connection:
        rows = [row for binary in sorted(needed) for row in services.list_all(connection, binary=binary)]
    up = {row["binary"] for row in rows if services.is_up(row, conf.compute.service_down_time)}
    missing = sorted(needed - up)
    return (FAILURE, f"no {' and no '.join(missing)} reports") if missing else (SUCCESS, "a conductor and a scheduler report")


def computes(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """At least one compute host reports."""
    from nova_lite.db import services

    db = Database(conf)
    db.check()
    with db.read() as connection:
        rows = services.list_all(connection, binary=services.COMPUTE)
    up = [r for r in rows if services.is_up(r, conf.compute.service_down_time)]
    if not up:
        return FAILURE, f"none of {len(rows)} compute hosts reports"
    return (SUCCESS if len(up) == len(rows) else WARNING), f"{len(up)} of {len(rows)} compute hosts report"


def filters(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """Flavors that ask for hosts by aggregates have no effect while no filter reads that."""
    from nova_lite.db import flavors

    with Database(conf).read() as connection:
        asking = [flavor.name for flavor in flavors.list_all(connection)
                  if any(spec.startswith(AGGREGATE_SPECS) for spec in flavor.extra_specs)]
    if asking and AGGREGATE_FILTER not in conf.scheduler.enabled_filters:
        return WARNING, f"{AGGREGATE_FILTER} is not in [scheduler] enabled_filters, but {len(asking)} flavor(s) have " \
                        f"{AGGREGATE_SPECS}...: {', '.join(asking[:5])}"
    return SUCCESS, "as the flavors ask"


def scale(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """Processes, connections and memory of the database suffice for the hosts."""
    from nova_lite.status import sizes

    told = sizes.too_small(conf)
    return (WARNING, "; ".join(told)) if told else (SUCCESS, "processes and database suffice for the hosts")


CHECKS: tuple[tuple[str, Callable[[cfg.ConfigOpts], tuple[str, str]]], ...] = (
    ("Database", database), ("Keys of secrets", keys), ("Clock", own_clock), ("Message broker", broker),
    ("Conductor and scheduler", control), ("Compute hosts", computes), ("Scheduler filters", filters),
    ("Scale", scale))


def upgrade_check(conf: cfg.ConfigOpts) -> int:
    """Print each check's result; 0 when all succeed, 1 with warnings, 2 with a failure (as nova-status does)."""
    worst = 0
    for name, check in CHECKS:
        try:
            result, details = check(conf)
        except exception.NovaLiteError as error:
            result, details = FAILURE, " ".join(str(error).split())
        except SQLAlchemyError as error:        # tables that are not there, for one
            result, details = FAILURE, checks.first_line(error)
        worst = max(worst, {SUCCESS: 0, WARNING: 1, FAILURE: 2}[result])
        print(f"{name}: {result}: {details}")
    return worst
