"""nova-lite-manage host key-create, key-list, key-revoke: by which compute hosts prove to conductors who they are."""
from __future__ import annotations

from oslo_config import cfg

from nova_lite import exception, units
from nova_lite.db import host_keys
from nova_lite.db.core import Database
from nova_lite.rpc import sender


def create(conf: cfg.ConfigOpts, host: str) -> str:
    """One more key of a host, for its [rpc] host_key. The key is not stored: after a loss make another one."""
    master = sender.master_key(conf)
    if not master:
        raise exception.ConfigError(reason="[rpc] master_key is not set: the keys of hosts are made of it")
    generation = Database(conf).write(host_keys.create, host)
    return f"{generation}:{sender.derive(master, host, generation).hex()}"


def lines(conf: cfg.ConfigOpts) -> list[str]:
    """All keys, as a table."""
    with Database(conf).read() as connection:
        rows = host_keys.list_all(connection)
    return [f"{'host':<32} {'key':>4} {'made':<20} revoked",
            *(f"{row['host']:<32} {row['generation']:>4} {units.isotime(row['created_at']):<20} "
              f"{units.isotime(row['revoked_at']) if row['revoked_at'] else ''}".rstrip() for row in rows)]


def revoke(conf: cfg.ConfigOpts, host: str, generation: int | None) -> int:
    """A key of a host, or all, is good no more; how many those were."""
    return Database(conf).write(host_keys.revoke, host, generation)
