"""What is refused with another status by Neutron than by the Compute API, for which the exceptions are made."""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nova_lite import exception

T = TypeVar("T")


def as_neutron_answers(change: Callable[..., T], *arguments: object, **named: object) -> T:
    """Do a change. Exhausted quotas and ranges, and addresses in use, become 409, as in Neutron."""
    try:
        return change(*arguments, **named)
    except (exception.OverQuota, exception.FixedIpAlreadyInUse, exception.NoMoreFixedIps) as error:
        raise exception.Conflict(error.public) from error
