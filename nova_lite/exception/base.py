"""The base of every error of nova_lite. An exception carries its HTTP status; the API makes a fault of it in one place.

``code`` is the HTTP status, ``msg_fmt`` the message with the keyword arguments of the constructor filled in. Errors with a
status below 500 are shown to the user as they are; others are shown only when ``safe`` is set.
"""
from __future__ import annotations

from typing import Any


class NovaLiteError(Exception):
    """Base of all errors that the service raises on purpose."""

    msg_fmt = "An unknown error occurred."
    code = 500
    safe = False

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = kwargs
        super().__init__(message if message is not None else self.msg_fmt % kwargs)

    @property
    def message(self) -> str:
        """The text for the user."""
        return str(self.args[0]) if self.args else self.msg_fmt
