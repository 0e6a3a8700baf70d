"""Passwords that guests encrypted for their users: pieces in ``instances.system_metadata``, as Nova keeps them."""
from __future__ import annotations

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import instances
from nova_lite.objects.instance import PASSWORD_KEYS, PASSWORD_PIECE, PASSWORD_SIZE


def set_once(conn: sa.Connection, uuid: str, password: str) -> None:
    """Store a password. Raises Conflict when the server has one, Invalid for one that is too long, InstanceNotFound."""
    if not 0 < len(password) <= PASSWORD_SIZE:
        raise exception.Invalid(f"A password has 1 to {PASSWORD_SIZE} bytes.")
    instance = instances.get(conn, uuid, lock=True)
    if instance.encrypted_password:
        raise exception.Conflict("The password was posted before.")
    _write(conn, uuid, instance.system_metadata, password)


def clear(conn: sa.Connection, uuid: str) -> None:
    """Forget the password, if there is one; the guest may post another. Raises InstanceNotFound."""
    instance = instances.get(conn, uuid, lock=True)
    if instance.encrypted_password:
        _write(conn, uuid, instance.system_metadata, "")


def _write(conn: sa.Connection, uuid: str, known: dict[str, object], password: str) -> None:
    pieces = {key: password[n * PASSWORD_PIECE:(n + 1) * PASSWORD_PIECE] for n, key in enumerate(PASSWORD_KEYS)}
    kept = {key: value for key, value in known.items() if key not in pieces}
    instances.update(conn, uuid, {"system_metadata": {**kept, **{k: v for k, v in pieces.items() if v}}})
