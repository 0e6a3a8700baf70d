"""Steps of a move from which there is no way back: a neighbour that is away is waited for."""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oslo_log import log

from nova_lite import exception
from nova_lite.compute.work import Work

LOG = log.getLogger(__name__)
PAUSES = (1.0, 2.0, 4.0, 8.0)       # seconds between two tries; the last one again and again
T = TypeVar("T")


def until_answered(work: Work, step: Callable[[], T]) -> T:
    """What ``step`` answers, once the neighbour that it asks is there; it must be one that can be run twice.

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
            LOG.warning("'%s' goes on in %s s: %s", work.verb.name, pause, error,
                        extra={"instance_uuid": work.instance.uuid})
            if work.host.stopping.wait(pause):
                raise exception.Stopping() from error
            work.update({}, [*work.verb.working, None])
