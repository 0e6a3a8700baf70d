"""Power operations on a host, one line each: what the driver does. Where the server ends, ``states.OPERATIONS`` says."""
from __future__ import annotations

from collections.abc import Callable

from nova_lite.compute import shares
from nova_lite.compute.work import Work
from nova_lite.objects.share import ACTIVE, INACTIVE

EVENTS = {"start": "compute_start_instance", "stop": "compute_stop_instance", "reboot": "compute_reboot_instance",
          "reboot_hard": "compute_reboot_instance", "pause": "compute_pause_instance", "unpause": "compute_unpause_instance",
          "suspend": "compute_suspend_instance", "resume": "compute_resume_instance",
          "changePassword": "compute_set_admin_password", "trigger_crash_dump": "compute_trigger_crash_dump"}


def _start(work: Work, timeout: int) -> None:
    _plug(work)
    shares.mount_all(work.host, work.instance)
    work.host.driver.power_on(work.instance, work.instance.network_info)


def _stop(work: Work, timeout: int) -> None:
    work.host.driver.power_off(work.instance, timeout)
    shares.unmount_all(work.host, work.instance)


def _reboot(work: Work, timeout: int) -> None:
    work.host.driver.reboot(work.instance, work.instance.network_info, False, timeout)


def _reboot_hard(work: Work, timeout: int) -> None:
    _plug(work)
    shares.mount_all(work.host, work.instance)
    work.host.driver.reboot(work.instance, work.instance.network_info, True, timeout)


def _pause(work: Work, timeout: int) -> None:
    work.host.driver.pause(work.instance)


def _unpause(work: Work, timeout: int) -> None:
    work.host.driver.unpause(work.instance)


def _suspend(work: Work, timeout: int) -> None:
    work.host.driver.suspend(work.instance)


def _resume(work: Work, timeout: int) -> None:
    _plug(work)
    work.host.driver.resume(work.instance, work.instance.network_info)


def _change_password(work: Work, timeout: int) -> None:
    work.host.driver.set_admin_password(work.instance, work.action.arguments["admin_password"])


def _trigger_crash_dump(work: Work, timeout: int) -> None:
    work.host.driver.trigger_crash_dump(work.instance)


def _plug(work: Work) -> None:
    for vif in work.instance.network_info:
        work.host.network.plug(work.instance, vif)


VERBS: dict[str, Callable[[Work, int], None]] = {
    "start": _start, "stop": _stop, "reboot": _reboot, "reboot_hard": _reboot_hard, "pause": _pause, "unpause": _unpause,
    "suspend": _suspend, "resume": _resume, "changePassword": _change_password, "trigger_crash_dump": _trigger_crash_dump}

_SHARES = {"start": ACTIVE, "reboot_hard": ACTIVE, "stop": INACTIVE}      # what a guest has of its shares afterwards


def run(work: Work) -> None:
    """Carry one out. A guest may take ``[compute] shutdown_timeout`` seconds to shut down."""
    verb = work.operation.verb
    VERBS[verb](work, work.host.conf.compute.shutdown_timeout)
    work.succeed(shares.with_status(work.instance, _SHARES[verb]) if verb in _SHARES else {})
