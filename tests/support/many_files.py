"""A process with more open files than ``select`` can tell apart."""
from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

_LAST = 1023


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """What is opened in the block has a number above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * _LAST), hard))
    files = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while files[-1] < _LAST:
            files.append(os.dup(files[0]))
        yield
    finally:
        for number in files:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
