"""Regular expressions of users: the one place where they are compiled, for the schemas of the API and for the databases.

RE2 validates every expression, also those that a database evaluates, and evaluates those of this process in time linear to the
length of the text. Python's own engine may take seconds to compile a few characters and hours to search with them, and blocks
all other threads. Where RE2 is not installed, an expression with repetition or alternatives is refused.
"""
from __future__ import annotations

import functools
import re
from typing import Any, Protocol

from oslo_log import log

from nova_lite import exception

try:
    import re2
except ImportError:         # there is no wheel for each platform
    re2 = None

LOG = log.getLogger(__name__)

MOST_BYTES = 1 << 15        # of RE2 for one expression: larger ones take milliseconds for each name
MOST_CHARACTERS = 255       # where there is no RE2
_REPEATS_OR_CHOOSES = frozenset("*+?{(|")


class Expression(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> Any:
        """The first place that fits, or None."""


@functools.lru_cache(maxsize=32)
def compile_linear(pattern: str) -> Expression:
    """The expression, which takes linear time. Raises InvalidInput (400) for what is none, or is too large."""
    if re2 is None:
        return _compile_simple(pattern)
    options = re2.Options()
    options.max_mem = MOST_BYTES
    options.log_errors = False
    try:
        compiled: Expression = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        LOG.debug("RE2 on the expression %r: %s", pattern, error)
        raise _refused(pattern, "it is too large, or not in the syntax of RE2") from error
    return compiled


def _compile_simple(pattern: str) -> Expression:
    """Without repetitions and choices Python's engine is good enough."""
    ranges = "-" in pattern.partition("[")[2]       # a range of thousands of characters takes milliseconds
    if len(pattern) > MOST_CHARACTERS or ranges or not _REPEATS_OR_CHOOSES.isdisjoint(pattern):
        raise _refused(pattern, "repetitions, groups, alternatives and ranges are not taken here")
    try:
        return re.compile(pattern)
    except re.error as error:
        LOG.debug("Python on the expression %r: %s", pattern, error)
        raise _refused(pattern, "its syntax is wrong") from error


def fits(pattern: str, text: str | None) -> bool | None:
    """What SQLite, which has no expressions of its own, asks for each row."""
    return None if text is None else compile_linear(pattern).search(text) is not None


def is_plain(pattern: str) -> bool:
    """True for text without special characters."""
    return re.escape(pattern).replace("\\-", "-").replace("\\ ", " ") == pattern


def _refused(pattern: str, reason: str) -> exception.InvalidInput:
    return exception.InvalidInput(reason=f"invalid regular expression {pattern!r}: {reason}")
