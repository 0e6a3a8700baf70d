"""Runs programs that copy for a long time, and ends them when the copy must end or makes no progress.

A host that loses power closes no connection, so a copy from it would wait for ever. Progress is measured by the activity of the
threads: incoming data wakes them, even zeros that are never written.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import time

from nova_lite.virt.driver import Checker

CHECK_SECONDS = 3.0     # between two looks
STALL_SECONDS = 60.0    # without any progress
_SWITCHES = re.compile(r"ctxt_switches:\s+(\d+)")


def run(check: Checker, *arguments: str | os.PathLike[str]) -> None:
    """Run a program to its end. Raises OSError with the end of its error output when it fails, OSError when it makes no
    progress, and the error of ``check``. No process is left then."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors, \
            subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,  # noqa: S603
                             stderr=errors) as process:
        try:
            _wait(process, check)
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            raise OSError(f"{arguments[0]} ended with {process.returncode}: {errors.read().strip()[-500:]}")


def _wait(process: subprocess.Popen[bytes], check: Checker) -> None:
    checked = moved = time.monotonic()
    seen, pause = -1, 0.01
    while process.poll() is None:
        time.sleep(pause)
        pause = min(2 * pause, CHECK_SECONDS / 6)
        now = time.monotonic()
        if now - checked < CHECK_SECONDS:
            continue
        check()
        checked, done = now, _switches(process.pid)
        if done != seen:
            seen, moved = done, now
        elif now - moved > STALL_SECONDS:
            raise OSError(f"nothing has moved for {STALL_SECONDS:.0f} s")


def _switches(pid: int) -> int:
    """How often its threads have begun to wait, or were made to."""
    total = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):        # a thread, or all of it, has ended
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(int, _SWITCHES.findall((thread / "status").read_text())))
    return total
