"""The name under which this host's guests were made. A daemon with another name would not recognise them.
``<state_path>/hosts`` has an empty file for each name that a compute daemon had there; several hosts may share the directory.
"""
from __future__ import annotations

import pathlib
import urllib.parse
from collections.abc import Collection

from oslo_config import cfg

from nova_lite import exception


def check(conf: cfg.ConfigOpts, name: str, guests: Collection[str]) -> None:
    """Note the name of a host that starts. Raises ConfigError for another name than before while there are guests, and when
    nothing can be noted."""
    known = pathlib.Path(conf.state_path).absolute() / "hosts"
    mine = known / urllib.parse.quote(name, safe="")
    try:
        before = sorted(urllib.parse.unquote(path.name) for path in known.iterdir()) if known.exists() else []
        if before and guests and name not in before:
            raise exception.ConfigError(
                reason=f"[DEFAULT] host = {name}, and this host, which has {len(guests)} guests, was {', '.join(before)} "
                       f"before: their servers are on a host of that name. Set host back; if they are servers of {name} by "
                       f"the database, create {mine}")
        mine.parent.mkdir(parents=True, exist_ok=True)
        mine.touch(mode=0o600)
    except OSError as error:
        raise exception.ConfigError(reason=f"[DEFAULT] state_path = {conf.state_path}: {error}") from error
