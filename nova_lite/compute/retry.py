"""Retries of steps that must not fail, while another service is unavailable: a move past its last undo cannot stop."""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oslo_log import log

from nova_lite import exception
from nova_lite.compute.work import Work
from nova_lite.objects import states

LOG = log.getLogger(__name__)
PAUSES = (1.0, 2.0, 4.0, 8.0)       # seconds between two tries; the last one again and again
T = TypeVar("T")


def retry_until_available(work: Work, step: Callable[[], T]) -> T:
    """The result of ``step``, retried until the service that it asks is available; it must be one that can be run twice.

    Between two tries the action must still be ours and the server not be deleted: else LeaseLost, UnexpectedTaskState or
    InstanceNotFound. A stop of the daemon ends the wait (Stopping). A server that was declared idle by os-resetState is waited
    for all the same: its guest is half-way.
    """
    pauses = iter(PAUSES)
    while True:
        try:
            return step()
        except exception.ServiceUnavailable as error:
            pause = next(pauses, PAUSES[-1])
            LOG.warning("'%s' goes on in %s s: %s", work.operation.verb, pause, error,
                        extra={"instance_uuid": work.instance.uuid})
            if work.host.stopping.wait(pause):
                raise exception.Stopping() from error
            work.update({}, [*states.working(work.operation), None])
