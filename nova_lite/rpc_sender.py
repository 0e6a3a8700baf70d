"""Who sends a message: what a client says of itself, and the conductor looks at (``conductor/callers.py``)."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sender:
    """``host`` is the compute host that sends; None: a control service does."""

    host: str | None = None

    def say(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a message carries of its sender; None: nothing."""
        return {"host": self.host} if self.host is not None else None


UNKNOWN = Sender()
