"""The end of a serial console's log, which virtlogd writes and rotates (console.log, console.log.0, ...)."""
from __future__ import annotations

import pathlib

from nova_lite import units

MAX_BYTES = 100 * units.KiB     # what one answer may carry, as in Nova


def tail(path: pathlib.Path, lines: int | None) -> str:
    """The last ``lines`` lines (None: all), at most MAX_BYTES of them; empty when the guest never ran."""
    data = b""
    for part in (path, path.with_name(path.name + ".0")):
        data = _end_of(part, MAX_BYTES - len(data)) + data
        if len(data) >= MAX_BYTES:
            break
    text = data.decode("utf-8", errors="replace")
    if lines is None:
        return text
    if lines <= 0:
        return ""
    return "".join(text.splitlines(keepends=True)[-lines:])


def _end_of(path: pathlib.Path, size: int) -> bytes:
    try:
        with open(path, "rb") as stream:
            end = stream.seek(0, 2)
            stream.seek(max(0, end - size))
            return stream.read(size)
    except FileNotFoundError:
        return b""
