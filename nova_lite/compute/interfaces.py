"""Attaches nics to the guest of a server, and detaches them.

The order is: bind a port to this host, write the nic to the server's record, plug it, give it to the guest. A detach does the
reverse. Each step can be run twice: the key of the request identifies the nic of an earlier run. A nic that cannot be removed
at once stays in the record, so that a detach or the delete of the server finds it.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_log import log

from nova_lite import exception, retry
from nova_lite.compute.work import Work, needs_stack
from nova_lite.context import admin_context
from nova_lite.objects.network import VIF, NetworkRequest

LOG = log.getLogger(__name__)
RELEASES = retry.Schedule((1.0, 2.0, 4.0))      # tries to give a port back
ABOUT_TO_BE = "null"            # the type of a nic whose port is not bound yet


def attach(work: Work) -> None:
    """Attach a nic to the guest. After a failure the port is released, and the server is as before."""
    request = NetworkRequest.from_primitive(work.action.arguments["request"])
    vif = next((v for v in work.instance.network_info if v.key == request.key), None)
    if vif is None and any(v.id == request.port_id for v in work.instance.network_info):
        _fail(work, exception.PortInUse(port_id=request.port_id), {})
        return
    try:
        _attach(work, request, vif)
    except Exception as error:
        LOG.error("attach of a nic failed: %s", error, extra={"instance_uuid": work.instance.uuid}, exc_info=needs_stack(error))
        _undo(work, request, error)
        return
    work.succeed()
    LOG.info("nic attached", extra={"instance_uuid": work.instance.uuid})


def _attach(work: Work, request: NetworkRequest, vif: VIF | None) -> None:
    host, instance = work.host, work.instance
    if vif is None and request.port_id:     # before the port is bound: the delete of the server must find it
        vif = VIF(request.port_id, request.network_id or "", request.network_name or "", "", ABOUT_TO_BE,
                  preserve_on_delete=True, tag=request.tag, active=False, key=request.key)
        _write_down(work, vif)
    if vif is None or vif.type == ABOUT_TO_BE:
        vif = host.network.attach(admin_context(), instance, request, host.name)
        _write_down(work, vif)
    host.network.plug(instance, vif)
    host.driver.attach_interface(instance, vif)


def _write_down(work: Work, vif: VIF) -> None:
    work.update_nic(vif.id, vif.to_primitive())
    work.instance.network_info = [*(v for v in work.instance.network_info if v.id != vif.id), vif]


def _undo(work: Work, request: NetworkRequest, error: Exception) -> None:
    instance = work.instance
    vif = next((v for v in instance.network_info if v.key == request.key), None)
    try:
        if vif is not None:
            _take_back(work, vif)
        else:
            _again(work, lambda: work.host.network.abandon(admin_context(), instance, request))
    except Exception as second:
        LOG.exception("the nic could not be taken back", extra={"instance_uuid": instance.uuid})
        _fail(work, exception.InterfaceAttachFailed(
            instance_id=instance.uuid, reason=f"{exception.public_of(error)}; taking it back failed, too: "
                                                f"{exception.public_of(second)}"), {})
        return
    _fail(work, error, changed(vif.id, None) if vif is not None else {})


def _fail(work: Work, error: Exception, updates: dict[str, Any]) -> None:
    """The request that waits for this is to answer with the error."""
    work.fail(error, {**updates, "error": [type(error).__name__, exception.public_of(error)]})


def changed(port_id: str, values: dict[str, Any] | None) -> dict[str, Any]:
    """The change that the end of an action writes: one nic (None: it is removed)."""
    return {"nic": {"id": port_id, "values": values}}


def detach(work: Work) -> None:
    """Detach a nic from the guest and release its port. A guest that does not release the nic keeps it."""
    port_id = work.action.arguments["port_id"]
    vif = next((v for v in work.instance.network_info if v.id == port_id), None)
    if vif is None:
        work.succeed()
        return
    _take_back(work, vif)
    work.succeed(changed(vif.id, None))
    LOG.info("nic of port %s detached", vif.id, extra={"instance_uuid": work.instance.uuid})


def _take_back(work: Work, vif: VIF) -> None:
    """Guest, host, network: in this order. The record is left, to go last."""
    host, instance = work.host, work.instance
    if vif.type != ABOUT_TO_BE:
        host.driver.detach_interface(instance, vif)
        host.network.unplug(instance, vif)
    _again(work, lambda: host.network.detach(admin_context(), instance, vif))


def _again(work: Work, give_back: Callable[[], None]) -> None:
    def tell(error: Exception, pause: float) -> None:
        LOG.warning("its port is released in %s s: %s", pause, error, extra={"instance_uuid": work.instance.uuid})

    retry.on_error(give_back, exception.ServiceUnavailable, RELEASES, work.host.clock, before_pause=tell)


VERBS: dict[str, Callable[[Work], None]] = {"attach_interface": attach, "detach_interface": detach}
