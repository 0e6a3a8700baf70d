"""Starts a guest up to its first instruction, and names the error when a new guest does not start."""
from __future__ import annotations

from collections.abc import Callable

from nova_lite import exception
from nova_lite.objects.instance import Instance
from nova_lite.virt.driver import Waiter
from nova_lite.virt.libvirt.guest import Guest


def run(guest: Guest, boot: Callable[[bool], None], wait_for_network: Waiter | None) -> None:
    """Boot it, but (True) for its first instruction; it runs when its network is ready. A run before may have left it
    waiting."""
    boot(wait_for_network is not None)
    if wait_for_network is not None:
        wait_for_network()
    guest.unpause()


def build_error(instance: Instance, error: Exception) -> exception.BuildFailed:
    """BuildAborted for what is wrong with the request (it would fail on every host), BuildFailed for the rest."""
    if isinstance(error, exception.BuildFailed):
        return error
    if isinstance(error, exception.NovaLiteError):
        kind = exception.BuildAborted if error.code in (400, 403, 404) else exception.BuildFailed
        return kind(instance_id=instance.uuid, reason=error)
    return exception.BuildFailed(instance_id=instance.uuid, reason=error)
