"""The one way to remove a guest from a host: the guest ends, then its nics are unplugged, then its volumes are disconnected.
Each part can be run twice. The records of the Network and Volume services are not changed.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nova_lite.compute import volumes
from nova_lite.compute.work import Host, Work
from nova_lite.objects.instance import Instance

Step = Callable[[], object]


def _run(step: Step) -> None:
    step()


def remove(host: Host, instance: Instance, end: Step, *, nics: bool = True, disks: bool = True,
           attempt: Callable[[Step], None] = _run) -> None:
    """``end`` ends the guest. ``nics`` and ``disks``: whether its nics are unplugged and its volumes disconnected. ``attempt``
    runs each step: it may log an error and return, and the next step is run."""
    attempt(end)
    for vif in instance.network_info if nics else ():
        attempt(partial(host.network.unplug, instance, vif))
    if disks:
        attempt(lambda: volumes.disconnect_all(host.driver, instance))


def destroy(host: Host, instance: Instance) -> None:
    """Remove the guest with all its files."""
    remove(host, instance, lambda: host.driver.destroy(instance, instance.network_info))


def destroy_failed(work: Work, may_run: bool, *, disks: bool = True) -> None:
    """The same for a guest that failed here. Raises GuestRemains where it ``may_run`` and does not end."""
    host, instance = work.host, work.instance

    def end() -> None:
        with work.removing_guest(may_run):
            host.driver.destroy(instance, instance.network_info)

    remove(host, instance, end, disks=disks)
