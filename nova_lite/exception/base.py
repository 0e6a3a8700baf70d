"""The base of every error of nova_lite. An exception carries its HTTP status; the API makes a fault of it in one place.

An error has two texts. ``message`` is for the operator: in logs, and in the details that admins see. ``public`` is for the user
of the cloud. Both are the same for an error below 500, for 501, and for a class that is ``safe``: these contain only text of
nova_lite. Of any other error the user reads the name of its class and the request, by which the operator finds it. Text of
libvirt, a program, the kernel or another exception may contain paths, addresses and names of hosts. So an exception that is an
argument is written out in ``message`` only; ``public`` has its public text.
"""
from __future__ import annotations

from typing import Any

from oslo_context import context


class NovaLiteError(Exception):
    """Base of all errors that the service raises on purpose.

    ``code`` is the HTTP status, ``msg_fmt`` the message with the keyword arguments of the constructor filled in,
    ``public_fmt`` the same for the public text, where that leaves something out.
    """

    msg_fmt = "An unknown error occurred."
    public_fmt: str | None = None
    code = 500
    safe = False

    def __init__(self, message: str | None = None, public: str | None = None, **kwargs: Any) -> None:
        if message is None and public is None and (self.public_fmt is not None or _has_error(kwargs)):
            public = (self.public_fmt or self.msg_fmt) % {name: _public(value) for name, value in kwargs.items()}
        self.kwargs = {name: words_of(value) if isinstance(value, Exception) else value for name, value in kwargs.items()}
        super().__init__(message if message is not None else self.msg_fmt % self.kwargs)
        if public is not None:
            self.kwargs["public"] = public      # these cross RPC

    @property
    def message(self) -> str:
        """The text for the operator."""
        return str(self.args[0]) if self.args else self.msg_fmt

    @property
    def public(self) -> str:
        """The text for the user."""
        if self.safe or self.code < 500 or self.code == 501 or self.public_fmt is not None:
            return str(self.kwargs.get("public", self.message))
        return _unexpected(self)


def public_of(error: Exception) -> str:
    """The text of an error for the user of the cloud."""
    return error.public if isinstance(error, NovaLiteError) else _unexpected(error)


def words_of(error: Exception) -> str:
    """The text of an error for the operator."""
    return error.message if isinstance(error, NovaLiteError) else f"{type(error).__name__}: {error}"


def _public(value: Any) -> Any:
    return public_of(value) if isinstance(value, Exception) else value


def _has_error(kwargs: dict[str, Any]) -> bool:
    return any(isinstance(value, Exception) for value in kwargs.values())


def _unexpected(error: Exception) -> str:
    name = type(error).__name__.removesuffix("_Remote")
    current = context.get_current()
    return f"{name} ({current.request_id})" if current is not None and current.request_id else name
