"""The interface to identity: who is behind a token. Keystone's side is keystonemiddleware, in the paste pipeline."""
from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Token:
    """The content of a valid token. Times are UTC without zone."""

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
        """(text of the token, its content); names or ids are accepted. ``address``: the source of the request. Raises
        Unauthorized, and TooManyLogins after too many wrong passwords from there."""

    def validate(self, token: str) -> Token:
        """The content of a token; raises Unauthorized for a wrong or expired one."""
