"""The interface to identity: who is behind a token. Keystone's side is keystonemiddleware, in the paste pipeline."""
from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Token:
    """What a valid token says. Times are UTC without zone."""

    user_id: str
    user_name: str
    project_id: str
    project_name: str
    roles: list[str] = field(default_factory=list)
    issued_at: datetime.datetime | None = None
    expires_at: datetime.datetime | None = None


class Identity(Protocol):
    """Checks passwords and tokens."""

    def authenticate(self, user: str, password: str, project: str | None, address: str = "") -> tuple[str, Token]:
        """(token text, what it says); names or ids are taken. ``address``: where the request came from.

        Raises Unauthorized, and TooManyLogins after too many wrong passwords from there.
        """

    def validate(self, token: str) -> Token:
        """What a token says; raises Unauthorized for a wrong or expired one."""
