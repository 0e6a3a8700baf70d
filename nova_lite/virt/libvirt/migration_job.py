"""The job in which libvirt copies a running guest: the call that starts it, and the statistics of it."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from oslo_log import log

from nova_lite import exception, units
from nova_lite.objects.guest_moves import Progress
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)


class Call:
    """A call that lasts as long as the copy, in a thread of its own."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._ended, self.flowed, self._function = threading.Event(), False, function       # flowed: post-copy
        self.error: exception.NovaLiteError | None = None
        threading.Thread(target=self._run, name="live-migration", daemon=True).start()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def pause(self, seconds: float) -> None:
        """Pause this thread, but no longer than until the call ends: nothing reaches the guest at its new host before its
        ports follow it."""
        if self.ended:
            time.sleep(seconds)
        else:
            self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            self._function()
        except exception.NovaLiteError as error:
            self.error = error
        except Exception as error:
            LOG.exception("live migration")
            self.error = exception.VirtDriverError(what="Live migration", reason=error)
        finally:
            self._ended.set()


def statistics(guest: Guest) -> dict[str, Any]:
    """What libvirt says of the job that the guest has now; {}: there is none."""
    try:
        found = guest.do(lambda domain: domain.jobStats()) or {}
    except exception.VirtDriverError:        # no process any more
        return {}
    return found if found.get("type", 0) in (guest.lib.VIR_DOMAIN_JOB_BOUNDED, guest.lib.VIR_DOMAIN_JOB_UNBOUNDED) else {}


def is_overdue(job: dict[str, Any], timeout: int) -> bool:
    """Whether a copy, by libvirt's statistics of it, takes longer than ``timeout`` seconds for each GiB, and for two at least,
    as in Nova: the guest writes faster than is copied. 0: never."""
    size = sum(int(job.get(f"{what}_total", 0)) for what in ("memory", "disk"))
    return timeout > 0 and int(job.get("time_elapsed", 0)) / 1000 > timeout * max(2.0, size / units.GiB)


def progress(job: dict[str, Any], in_post_copy: bool = False) -> Progress:
    """The progress of a copy, by libvirt's statistics."""
    numbers = {f"{what}_{part}": int(job.get(f"{what}_{part}", 0))
               for what in ("memory", "disk") for part in ("total", "processed", "remaining")}
    return Progress.from_primitive({**numbers, "post_copy": in_post_copy})
