"""The operator's data for every guest: one JSON file. Dynamic targets, which are asked for each guest, are not supported."""
from __future__ import annotations

import json
from typing import Any

from oslo_config import cfg

from nova_lite import exception


def load(conf: cfg.ConfigOpts) -> dict[str, Any]:
    """The object in ``[metadata] vendor_data_file``, empty without one. Raises ConfigError for a file that holds none."""
    path: str = conf.metadata.vendor_data_file
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError) as error:
        raise exception.ConfigError(reason=f"[metadata] vendor_data_file = {path}: {error}") from None
    if not isinstance(found, dict):
        raise exception.ConfigError(reason=f"[metadata] vendor_data_file = {path}: this is not a JSON object")
    return found
