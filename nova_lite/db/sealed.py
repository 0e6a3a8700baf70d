"""Encrypts secrets among the arguments of actions wherever they are in the database (``secret_keys``). An encrypted value is
{"sealed": text}; older versions have left some values in clear.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception
from nova_lite.db.secret_keys import SecretKeys

LOG = log.getLogger(__name__)
NAMES = ("admin_password",)
_KEY, _SEALED = "nova_lite_secret_keys", "sealed"


def give_keys(engine: sa.Engine, keys: SecretKeys) -> None:
    """Let all connections of the engine seal and open."""
    engine.update_execution_options(**{_KEY: keys})


def seal(conn: sa.Connection, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they may be stored. Raises ServiceUnavailable where there is a secret and no key."""
    try:
        return {name: {_SEALED: _keys(conn).seal(value)} if name in NAMES and isinstance(value, str) else value
                for name, value in arguments.items()}
    except exception.ConfigError as error:
        LOG.error("A password is refused, because it would be stored in clear: %s", error)
        raise exception.ServiceUnavailable(what="Encryption of passwords", reason="it has no key") from None


def unseal(conn: sa.Connection, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the worker needs them. Raises ConfigError where no key fits."""
    return {name: _keys(conn).open(value[_SEALED]) if name in NAMES and isinstance(value, dict) else value
            for name, value in arguments.items()}


def without(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is left when the secrets are forgotten."""
    return {name: value for name, value in arguments.items() if name not in NAMES}


def _keys(conn: sa.Connection) -> SecretKeys:
    keys: SecretKeys = conn.get_execution_options()[_KEY]
    return keys
