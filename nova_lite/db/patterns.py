"""Regular expressions of users that Python's ``re`` runs, which may take hours for a few characters and lets no other thread
in meanwhile. What is taken is a small language: no groups, no alternatives, at most :data:`MAX_REPEATS` repetitions."""
from __future__ import annotations

import re

from nova_lite import exception

MAX_REPEATS = 3
_LITERALS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)      # escaped characters, and sets of characters


def compile_any(pattern: str) -> re.Pattern[str]:
    """The expression. Raises InvalidInput (400) for what is none."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise exception.InvalidInput(reason=f"invalid regular expression {pattern!r}: {error}") from error


def compile_small(pattern: str) -> re.Pattern[str]:
    """The expression. Raises InvalidInput (400) for what is none, or not of the small language."""
    compiled = compile_any(pattern)
    operators = _LITERALS.sub("", pattern)
    if any(one in operators for one in "(|)"):
        raise exception.InvalidInput(reason=f"regular expression {pattern!r}: groups and alternatives are not taken here")
    if sum(operators.count(one) for one in "*+?{") > MAX_REPEATS:
        raise exception.InvalidInput(reason=f"regular expression {pattern!r}: it has more than {MAX_REPEATS} repetitions "
                                            "(*, +, ?, {)")
    return compiled


def is_plain(pattern: str) -> bool:
    """True for text in which nothing stands for anything but itself."""
    return re.escape(pattern).replace("\\-", "-").replace("\\ ", " ") == pattern
