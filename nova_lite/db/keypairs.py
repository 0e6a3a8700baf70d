"""Key pairs: public keys of a user. A private key is never stored."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import exc

from nova_lite import exception, units
from nova_lite.db import models, paging, quotas

T = models.key_pairs


def get(conn: sa.Connection, user_id: str, name: str) -> dict[str, Any]:
    """One key pair with the columns of the table; raises KeypairNotFound."""
    row = conn.execute(sa.select(T).where(T.c.user_id == user_id, T.c.name == name)).first()
    if row is None:
        raise exception.KeypairNotFound(name=name, user_id=user_id)
    return dict(row._mapping)


def list_page(conn: sa.Connection, user_id: str, limit: int | None = None, marker: str | None = None) -> list[dict[str, Any]]:
    """A user's key pairs by name, those after the name ``marker``; raises MarkerNotFound."""
    after = None
    if marker is not None:
        found = conn.scalar(sa.select(T.c.name).where(T.c.user_id == user_id, T.c.name == marker))
        if found is None:
            raise exception.MarkerNotFound(marker=marker)
        after = [found]
    query = paging.page(sa.select(T).where(T.c.user_id == user_id), [(T.c.name, "asc")], conn.dialect.name, limit, after)
    return [dict(row._mapping) for row in conn.execute(query)]


def create(conn: sa.Connection, conf: cfg.ConfigOpts, project_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Store a key pair; raises KeyPairExists, or QuotaLimitExceeded when the user has as many as allowed."""
    quotas.check_key_pairs(conn, conf, project_id, values["user_id"])
    try:
        with conn.begin_nested():
            conn.execute(sa.insert(T).values(created_at=units.utcnow(), **values))
    except exc.IntegrityError:
        raise exception.KeyPairExists(name=values["name"]) from None
    return get(conn, values["user_id"], values["name"])


def delete(conn: sa.Connection, user_id: str, name: str) -> None:
    """Forget a key pair; raises KeypairNotFound."""
    if not conn.execute(sa.delete(T).where(T.c.user_id == user_id, T.c.name == name)).rowcount:
        raise exception.KeypairNotFound(name=name, user_id=user_id)
