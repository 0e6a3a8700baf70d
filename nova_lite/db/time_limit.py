"""A time limit for one statement: for expressions of users on a server of MariaDB, MySQL or PostgreSQL. SQLite has none: the
expressions there take linear time.
"""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

# begins an expression of MariaDB's: it looks at the clock between two rows only, and a row might take half a minute
FEW_STEPS = "(*LIMIT_MATCH=10000)"
_NOT_SEARCHED = 1139        # MariaDB's warning: the steps were used up, and the row was taken for one that does not fit
# MariaDB, MySQL, MySQL within an expression, PostgreSQL
_CODES = {"1969", "3024", "3699", "57014"}


def execute(connection: sa.Connection, statement: sa.Select[Any], seconds: float) -> sa.CursorResult[Any]:
    """Execute a statement, which the server ends after so many seconds. Raises DBAPIError, see :func:`is_over`.

    Only this connection listens, and only for this statement: a listener of the engine costs each statement some 15 us.
    """
    def limit(_connection: sa.Connection, cursor: Any, text: str, parameters: Any, _context: Any,
              _many: bool) -> tuple[str, Any]:
        return _limited(connection, cursor, text, seconds), parameters

    sa.event.listen(connection, "before_cursor_execute", limit, retval=True)
    try:
        return connection.execute(statement)
    finally:
        sa.event.remove(connection, "before_cursor_execute", limit)


def is_over(error: exc.DBAPIError) -> bool:
    """Whether the server ended the statement for its time."""
    return code_of(error) in _CODES


def is_mariadb(connection: sa.Connection) -> bool:
    """MySQL is none."""
    return bool(getattr(connection.dialect, "is_mariadb", False))


def has_given_up(connection: sa.Connection, result: sa.CursorResult[Any]) -> bool:
    """Whether a row was left out since its search took too many steps, see FEW_STEPS."""
    if not is_mariadb(connection) or not getattr(result.context.cursor, "warning_count", 0):
        return False
    return any(row[1] == _NOT_SEARCHED for row in connection.exec_driver_sql("SHOW WARNINGS"))


def code_of(error: exc.DBAPIError) -> str:
    """The server's number of an error."""
    original = error.orig
    return str(getattr(original, "pgcode", None) or (original.args[0] if original is not None and original.args else ""))


def _limited(connection: sa.Connection, cursor: Any, statement: str, seconds: float) -> str:
    if connection.dialect.name == "postgresql":
        cursor.execute(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")      # until the transaction ends
    elif is_mariadb(connection):
        return f"SET STATEMENT max_statement_time = {seconds} FOR {statement}"
    elif connection.dialect.name == "mysql":
        return statement.replace("SELECT", f"SELECT /*+ MAX_EXECUTION_TIME({int(seconds * 1000)}) */", 1)
    return statement
