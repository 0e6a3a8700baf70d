"""Regular expressions of users. What runs in this process runs in RE2, whose time grows with the length of the text only.

Python's own engine may take hours for a few characters, and lets no other thread run meanwhile. Where RE2 is not installed, an
expression that repeats or chooses is refused.
"""
from __future__ import annotations

import functools
import re
from typing import Any, Protocol

from nova_lite import exception

try:
    import re2
except ImportError:         # there is no wheel for each platform
    re2 = None

MOST_BYTES = 1 << 16        # of RE2 for one expression: larger ones take milliseconds for each name
_REPEATS_OR_CHOOSES = frozenset("*+?{(|")


class Expression(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> Any:
        """The first place that fits, or None."""


def check(pattern: str) -> None:
    """For an expression that a database will run. Raises InvalidInput (400) for what is none."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise _refused(pattern, str(error)) from error


@functools.lru_cache(maxsize=32)
def compile_linear(pattern: str) -> Expression:
    """The expression, which takes linear time. Raises InvalidInput (400) for what is none, or is too large."""
    check(pattern)
    if re2 is None:
        if _REPEATS_OR_CHOOSES.isdisjoint(pattern):
            return re.compile(pattern)
        raise _refused(pattern, "repetitions, groups and alternatives are not taken here")
    options = re2.Options()
    options.max_mem = MOST_BYTES
    options.log_errors = False
    try:
        compiled: Expression = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        words = error.args[0]
        raise _refused(pattern, words.decode(errors="replace") if isinstance(words, bytes) else str(words)) from error
    return compiled


def fits(pattern: str, text: str | None) -> bool | None:
    """What SQLite, which has no expressions of its own, asks for each row."""
    return None if text is None else compile_linear(pattern).search(text) is not None


def is_plain(pattern: str) -> bool:
    """True for text in which nothing stands for anything but itself."""
    return re.escape(pattern).replace("\\-", "-").replace("\\ ", " ") == pattern


def _refused(pattern: str, reason: str) -> exception.InvalidInput:
    return exception.InvalidInput(reason=f"invalid regular expression {pattern!r}: {reason}")
