"""Logging of one process: oslo.log with the request id and the server id on each line.

A message is one line. It may contain text of a client (a path, a method, a name): control characters are escaped here, in every
message of every library. A line about a server is logged with ``extra={"instance_uuid": uuid}``; the request id comes from the
context of the thread.
"""
from __future__ import annotations

import logging

from oslo_config import cfg
from oslo_log import log

from nova_lite import version

_START = "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s "
CONTEXT_FORMAT = _START + "[%(global_request_id)s %(request_id)s %(user_identity)s] %(instance)s%(message)s"
DEFAULT_FORMAT = _START + "[-] %(instance)s%(message)s"
INSTANCE_FORMAT = "[instance: %(uuid)s] "
LEVELS = ["amqp=ERROR", "amqplib=WARNING", "kombu=WARNING", "oslo.messaging=WARNING", "oslo_messaging=WARNING",
          "oslo_service=WARNING", "oslo_policy=WARNING", "sqlalchemy=WARNING", "alembic=WARNING", "stevedore=WARNING",
          "keystonemiddleware=WARNING", "keystoneauth=WARNING", "urllib3=WARNING", "requests=WARNING",
          "eventlet=WARNING", "routes=WARNING", "dogpile=INFO"]


class Record(logging.LogRecord):
    """A log record as one line of printable characters."""

    def getMessage(self) -> str:  # noqa: N802
        """The message with its arguments."""
        return one_line(super().getMessage())


def one_line(text: str) -> str:
    """``text`` with what is not printable escaped: line breaks, control characters, and marks that change the direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def setup(conf: cfg.ConfigOpts) -> None:
    """Start logging, to the log file of ``conf``, else to stderr. The operator's options override the defaults."""
    logging.setLogRecordFactory(Record)
    for name, value in (("logging_context_format_string", CONTEXT_FORMAT), ("logging_default_format_string", DEFAULT_FORMAT),
                        ("logging_exception_prefix", _START), ("default_log_levels", LEVELS),
                        ("logging_debug_format_suffix", ""), ("instance_uuid_format", INSTANCE_FORMAT),
                        ("instance_format", INSTANCE_FORMAT)):
        conf.set_default(name, value)
    log.setup(conf, "nova_lite", version.VERSION)
