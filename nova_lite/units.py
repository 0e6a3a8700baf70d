"""Sizes in bytes, numbers as users write them, and the clock of the service."""
from __future__ import annotations

import datetime

from oslo_utils import timeutils

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB
_DIGITS = 18
"""Of a number that every database holds; more of them are no id of anything."""


def number(text: str) -> int | None:
    """A whole number of reasonable size, not negative; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def utcnow() -> datetime.datetime:
    """Now, in UTC, without time zone: as the database holds it."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def parse_time(text: str) -> datetime.datetime:
    """A time of ISO 8601 as the database holds it. Raises ValueError, also for one outside of the calendar in UTC."""
    try:
        return timeutils.normalize_time(timeutils.parse_isotime(text))
    except OverflowError as error:
        raise ValueError(f"{text} is not between the years 1 and 9999 in UTC") from error


def isotime(when: datetime.datetime | None) -> str | None:
    """``2026-01-31T10:20:30Z``, the form of most times in the API."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ") if when else None


def isotime_micro(when: datetime.datetime | None) -> str | None:
    """``2026-01-31T10:20:30.000000``, the form of launched_at, of actions and of services in the API."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%f") if when else None
