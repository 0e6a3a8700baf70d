"""What billing and monitoring are told over the message bus, in Nova's two formats.

Off unless ``[notifications] format`` is set: then nothing of this package but this file is ever loaded.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config import cfg

if TYPE_CHECKING:
    from nova_lite.db.core import Database


def attach(conf: cfg.ConfigOpts, db: Database, service: str) -> None:
    """Tell what the transactions of ``db`` change, in the name of ``service`` (api, conductor) where no host is involved.

    Raises ConfigError for a bus that cannot be used.
    """
    if conf.notifications.format != "none":
        from nova_lite.notifications.sender import Sender

        db.listener = Sender(conf, service)
