"""The one switch between green and native threads: ``NOVA_LITE_CONCURRENCY=eventlet|threading`` (default eventlet).

:func:`setup` runs first thing in every process (``nova_lite.cmd`` calls it when it is imported). All other code is plain
blocking code on ``threading`` and ``concurrent.futures``, which eventlet's monkey patching turns green; only a long C call
(libvirt, hashing of large files) must go through :func:`native`, or it would stop every green thread of the process.
"""
from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

VARIABLE = "NOVA_LITE_CONCURRENCY"


def mode() -> str:
    """``eventlet`` or ``threading``; raises ValueError for any other value of the variable."""
    value = os.environ.get(VARIABLE, "eventlet")
    if value not in ("eventlet", "threading"):
        raise ValueError(f"{VARIABLE} must be eventlet or threading, not {value!r}")
    return value


def is_green() -> bool:
    """True where this process runs on green threads."""
    return mode() == "eventlet"


def setup() -> None:
    """Choose the threads of this process. Call it before anything else is imported."""
    warnings.filterwarnings("ignore", message="(?s).*Eventlet is deprecated.*")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="oslo_.*")
    # eventlet's own resolver costs 15 MiB and brings nothing to addresses of the local network
    os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
    if is_green():
        import eventlet

        eventlet.monkey_patch()
    from oslo_service import backend

    backend.init_backend(backend.BackendType.EVENTLET if is_green() else backend.BackendType.THREADING)


def native(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run a long C call in a native thread and wait for it without stopping other green threads."""
    if not is_green():
        return function(*args, **kwargs)
    from eventlet import tpool

    return tpool.execute(function, *args, **kwargs)
