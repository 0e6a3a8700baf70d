"""Notifications for billing and monitoring over the message bus, in the two formats of Nova. Off unless ``[notifications]
format`` is set: then no other file of this package is loaded.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config import cfg

if TYPE_CHECKING:
    from nova_lite.db.core import Database


def attach(conf: cfg.ConfigOpts, db: Database, service: str) -> None:
    """Send notifications of the transactions of ``db``, as ``service`` (api, conductor) where no host is involved. Raises
    ConfigError for a bus that cannot be used."""
    if conf.notifications.format != "none":
        from nova_lite.notifications.sender import Sender

        db.listener = Sender(conf, service)
