"""The connection to the database: transactions that are tried again after a deadlock."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log
from sqlalchemy import exc

from nova_lite import exception, retry
from nova_lite.db import galera, journal, patterns, pymysql_loader, sealed, time_limit
from nova_lite.db.secret_keys import SecretKeys
from nova_lite.runtime import concurrency

T = TypeVar("T")
LOG = log.getLogger(__name__)
WRITES = retry.Schedule(tuple(0.01 * count ** 2 for count in range(1, 8)))      # tries of a transaction
IDLE_SECONDS = 2.0
CONNECT_TIMEOUT = 5         # seconds to wait for a connection
ANSWER_SECONDS = 25         # MySQL: silence after which a server is taken for dead; a statement of ours takes far less
LOCK_SECONDS = 20           # MySQL: the longest wait for a lock; less, so that the server gives up first, and says so
# PostgreSQL: a server whose machine does not even answer the kernel's questions is taken for dead after 15 seconds
KEEPALIVES = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 15000}
RECONNECT_SECONDS = 30.0    # a transaction that lost its connection is not begun again after this time
# MySQL: deadlock, lock wait timeout, record changed, and no such savepoint: a deadlock ends the whole transaction, and its
# savepoints, which are rolled back after that. PostgreSQL: serialization failure, deadlock
_AGAIN = {"1213", "1205", "1020", "1305", "40001", "40P01"}


class Database:
    """One engine, or the next when ``[database] connection`` has changed. The functions of ``nova_lite.db.<aggregate>`` take
    a ``sqlalchemy.Connection`` first; the caller opens the transaction: ``with db.read() as c`` to look,
    ``db.write(function, *args)`` to change."""

    def __init__(self, conf: cfg.ConfigOpts, clock: retry.Clock = retry.SYSTEM) -> None:
        self.conf, self._clock = conf, clock
        self.listener: journal.Listener | None = None
        self._keys = SecretKeys(conf.database.secret_keys_file)
        self._open()
        conf.register_mutate_hook(self._follow)

    def _open(self) -> None:
        self._url: str = self.conf.database.connection
        engine = make_engine(self._url, self.conf.database.max_pool_size)
        sealed.give_keys(engine, self._keys)
        self.engine = engine        # with its keys: other threads take connections at once

    def _follow(self, conf: cfg.ConfigOpts, _fresh: object) -> None:
        """The options were read again. Transactions under way finish, and their connections are closed after them."""
        if conf.database.connection != self._url:
            old = self.engine
            self._open()
            sa.event.listen(old, "checkin", _close)
            old.dispose()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection for reading; whatever it did is rolled back."""
        with self.engine.connect().execution_options(read_only=True) as connection:
            yield connection

    def write(self, function: Callable[..., T], *args: object, **kwargs: object) -> T:
        """Run ``function(connection, *args)`` in one transaction. After a deadlock or a lost connection run it again, at most
        as often as :data:`WRITES` allows.

        The function must have no effect except on the connection. Its exceptions roll back and are raised. ``listener``, if
        there is one, is called after the commit.
        """
        started = self._clock.monotonic()

        def tell(error: Exception, _pause: float) -> None:
            LOG.debug("transaction %s again after %s", getattr(function, "__name__", function), error)

        return retry.on_error(
            lambda: self._write(function, *args, **kwargs),
            lambda error: isinstance(error, exc.DBAPIError) and _may_try_again(error, self._clock.monotonic() - started),
            WRITES, self._clock, before_pause=tell)

    def _write(self, function: Callable[..., T], *args: object, **kwargs: object) -> T:
        with self.engine.begin() as connection:
            if self.listener is None:
                return function(connection, *args, **kwargs)
            notes = journal.open_on(connection)
            result = function(connection, *args, **kwargs)
            notes.close(connection)
        self.listener.tell(notes)
        return result

    def check(self) -> None:
        """Raise ServiceUnavailable, in one line and without the password, when the database does not answer."""
        try:
            with self.read() as connection:
                connection.execute(sa.select(sa.literal(1)))
        except exc.SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise exception.ServiceUnavailable(what=f"Database {self.engine.url.render_as_string(hide_password=True)}",
                                               reason=cause) from None

    def dispose(self) -> None:
        """Close all connections; the listener gets rid of what it has still to say."""
        if self.listener is not None:
            self.listener.close()
        self.engine.dispose()


def _may_try_again(error: exc.DBAPIError, seconds: float) -> bool:
    if error.connection_invalidated:
        return seconds < RECONNECT_SECONDS
    return time_limit.code_of(error) in _AGAIN or "database is locked" in str(error.orig)


def is_unavailable(error: Exception) -> bool:
    """Whether a transaction failed because of the database, and not because of what was to be written: another one would fail
    too."""
    return isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError | exc.DisconnectionError) or (
        isinstance(error, exc.DBAPIError) and error.connection_invalidated)


def make_engine(url: str, pool_size: int = 10, no_time_limit: bool = False) -> sa.Engine:
    """The engine for ``url``, with the settings that each kind of database needs. ``no_time_limit``: statements
    may take any time, as those of migrations do.

    All run at READ COMMITTED (SQLite: serialized): a conditional UPDATE then sees the newest committed row, which is what
    leases and claims stand on. Raises ConfigError for a URL that names no database, or one whose driver is not installed.
    """
    try:
        return _engine(sa.make_url(url), pool_size, no_time_limit)
    except (exc.ArgumentError, ImportError, ValueError) as error:       # ValueError: the port
        raise exception.ConfigError(reason=f"[database] connection: {str(error).splitlines()[0]}") from None


def _engine(made: sa.URL, pool_size: int, no_time_limit: bool) -> sa.Engine:
    options: dict = {"hide_parameters": True}       # values, passwords among them, would stand in errors and so in logs
    if made.get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": 30, "check_same_thread": False}
        if made.database in (None, "", ":memory:"):
            options["poolclass"] = sa.StaticPool
        engine = sa.create_engine(made, **options)
        sa.event.listen(engine, "connect", _sqlite_settings)
        sa.event.listen(engine, "begin", _sqlite_begin)
        return engine
    # no overflow: opening connections for every burst costs more than a short wait for an open one
    options.update(pool_size=pool_size, max_overflow=0, pool_recycle=3600, isolation_level="READ COMMITTED")
    limits = {"connect_timeout": CONNECT_TIMEOUT} | ({} if no_time_limit else _time_limits(made))
    options["connect_args"] = {name: value for name, value in limits.items() if name not in made.query}
    if made.get_backend_name() == "postgresql":
        concurrency.green_postgresql()
    if made.get_driver_name() == "pymysql":
        pymysql_loader.load()
    engine = sa.create_engine(made, **options)
    if made.get_backend_name() in ("mysql", "mariadb"):
        galera.follow(engine)
    sa.event.listen(engine, "checkout", _ping_if_idle)
    sa.event.listen(engine, "checkin", _note_use)
    return engine


def _time_limits(url: sa.URL) -> dict[str, Any]:
    """What keeps a failover of the database from being waited for until TCP gives up, which takes a quarter of an hour or two
    hours. Each can be said otherwise in the URL."""
    if url.get_driver_name() == "pymysql":
        return {"read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS, "init_command":
                f"SET SESSION innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, {LOCK_SECONDS})"}
    return dict(KEEPALIVES) if url.get_driver_name() == "psycopg2" else {}


def _close(_connection: object, record: sa.pool.ConnectionPoolEntry) -> None:
    record.close()


def _note_use(_connection: object, record: sa.pool.ConnectionPoolEntry) -> None:
    record.info["used"] = time.monotonic()


def _ping_if_idle(connection: Any, record: sa.pool.ConnectionPoolEntry, _proxy: object) -> None:
    """As pool_pre_ping, but only for connections that lay idle: one that was just used costs no extra round trip."""
    if time.monotonic() - record.info.get("used", time.monotonic()) < IDLE_SECONDS:
        return
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT 1")
        cursor.close()
        connection.rollback()
    except Exception as error:
        raise exc.DisconnectionError() from error


def _sqlite_settings(connection: object, _record: object) -> None:
    connection.isolation_level = None  # type: ignore[attr-defined]  # we say BEGIN ourselves, see _sqlite_begin
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")       # what was deleted is overwritten, not only free
    cursor.close()
    connection.create_function("regexp", 2, patterns.fits)  # type: ignore[attr-defined]  # instead of SQLAlchemy's, by re


def _sqlite_begin(connection: sa.Connection) -> None:
    # a transaction that writes takes the lock at its start: two that read first and then write would deadlock
    mode = "DEFERRED" if connection.get_execution_options().get("read_only") else "IMMEDIATE"
    connection.exec_driver_sql(f"BEGIN {mode}")
