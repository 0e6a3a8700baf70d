"""Records that cross RPC and JSON columns: dataclasses, additive only, tolerant readers."""
from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

R = TypeVar("R", bound="Record")


class Record:
    """Base of the dataclasses. A new field needs a default, so that old messages can be read; unknown keys are ignored."""

    def to_primitive(self) -> dict[str, Any]:
        """Plain JSON types; times become ISO 8601 text, nested records dictionaries."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_primitive(cls: type[R], values: Mapping[str, Any]) -> R:
        """The inverse of :meth:`to_primitive`; raises TypeError when a field without default is missing."""
        made = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if field.name in values:
                value = values[field.name]
                if isinstance(value, str) and "datetime" in str(field.type):
                    value = datetime.datetime.fromisoformat(value)
                made[field.name] = value
        return cls(**made)


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_primitive()
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value
