"""Exceptions that end the work on an action, but not the action: the worker stops at once, and the next owner continues.

Like ``asyncio.CancelledError`` they are no subclass of ``Exception``, so ``except Exception`` in the code of a step does not
catch them. The conductor's client raises them. They are caught where work begins: in the compute manager and
``server_queues.py``, in the task runner of the conductor, and in the loops of a service.
"""
from __future__ import annotations

from typing import Any


class Interrupted(BaseException):
    """Base of all. ``message`` is for the operator."""

    msg_fmt = "The work is interrupted"

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = kwargs
        self.message = message if message is not None else self.msg_fmt % kwargs
        super().__init__(self.message)


class LeaseLost(Interrupted):
    """Another worker has the action, or it has ended: the former holder changes nothing more."""

    msg_fmt = "The lease of action %(action_id)s is not held by %(owner)s any more"


class ConductorAway(Interrupted):
    """No conductor answers, or a conductor failed: it is not known whether the lease still holds."""

    msg_fmt = "No answer from the conductor: %(reason)s"


class OtherCloud(Interrupted):
    """A message of another cloud has come to this service: its own conductors are away."""

    msg_fmt = "The message is of cloud %(theirs)s, and this service is of cloud %(ours)s"


class HostSilent(Interrupted):
    """The other host of a move does not answer."""

    msg_fmt = "The other host of the move does not answer '%(question)s'"


class Stopping(Interrupted):
    """The daemon stops. The next one takes the action up."""

    msg_fmt = "This daemon stops"
