"""Power operations on a host: one driver call each. The table of verbs says in which state the server ends."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oslo_log import log

from nova_lite import exception
from nova_lite.compute import shares, volumes
from nova_lite.compute.work import Work
from nova_lite.context import admin_context
from nova_lite.objects import states
from nova_lite.objects.share import ACTIVE, INACTIVE

LOG = log.getLogger(__name__)


def _start(work: Work, timeout: int) -> None:
    with _mended(work):
        _plug(work)
        shares.mount_all(work.host, work.instance)
        work.host.driver.power_on(work.instance, work.instance.network_info)


def _stop(work: Work, timeout: int) -> None:
    work.host.driver.power_off(work.instance, timeout)
    shares.unmount_all(work.host, work.instance)


def _reboot(work: Work, timeout: int) -> None:
    work.host.driver.reboot(work.instance, work.instance.network_info, False, timeout)


def _reboot_hard(work: Work, timeout: int) -> None:
    if work.host.driver.power_state(work.instance) is not None:
        try:
            _bind(work)
        except (exception.UnexpectedTaskState, exception.InstanceNotFound):
            raise
        except exception.NovaLiteError as error:        # the guest starts with the ports that it had
            LOG.warning("its ports were not bound again: %s", error, extra={"instance_uuid": work.instance.uuid})
    with _mended(work):
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


@contextmanager
def _mended(work: Work) -> Iterator[None]:
    """When the hypervisor does not have the guest, a move back to this host was interrupted: bind the ports and connect the
    volumes first."""
    unknown = work.host.driver.power_state(work.instance) is None
    if unknown:
        _bind(work)
        volumes.connect_missing(work)
    yield
    if unknown:
        volumes.complete_missing(work)


def _bind(work: Work) -> None:
    """Bind the ports to this host and to no other."""
    instance = work.instance
    before = [vif.to_primitive() for vif in instance.network_info]
    instance.network_info = work.host.network.move(admin_context(), instance, work.host.name)
    now = [vif.to_primitive() for vif in instance.network_info]
    if now != before:
        work.update({"network_info": now}, [*work.verb.working])


def _plug(work: Work) -> None:
    for vif in work.instance.network_info:
        work.host.network.plug(work.instance, vif)


VERBS: dict[str, Callable[[Work, int], None]] = {
    "start": _start, "stop": _stop, "reboot": _reboot, "reboot_hard": _reboot_hard, "pause": _pause, "unpause": _unpause,
    "suspend": _suspend, "resume": _resume, "changePassword": _change_password, "trigger_crash_dump": _trigger_crash_dump}


def run(work: Work) -> None:
    """Do one power operation. A guest has ``[compute] shutdown_timeout`` seconds to shut down."""
    verb = work.verb
    VERBS[verb.name](work, work.host.conf.compute.shutdown_timeout)
    has_shares = ACTIVE if verb.ends_in == states.ACTIVE else INACTIVE
    work.succeed(shares.with_status(work.instance, has_shares) if "shares" in verb.writes else {})
