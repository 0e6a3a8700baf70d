"""Evacuation: a server of a host that is down is built again here, with its ports and volumes. Until the guest runs here the
record of the server names the old host, so after a failure the server is still there. When the old host starts again, it turns
its guest off as soon as this host was chosen, and removes the guest as soon as this host has begun: the guest never runs twice
(``conductor/power_states.py``). The evacuation begins by taking the ownership of files on shared storage away from the old
host.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable

from oslo_log import log

from nova_lite import exception, units
from nova_lite.compute import build, guest_removal, volumes
from nova_lite.compute.external_events import Listener
from nova_lite.compute.work import Work, needs_stack
from nova_lite.context import admin_context
from nova_lite.objects import migration as objects
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)


def run(work: Work) -> None:
    """Build the guest here. Raises what went wrong, with nothing left here; the server is in ERROR then."""
    before = work.instance
    try:
        work.update({}, [*work.verb.working])      # files that another host owns by now keep their owner
        work.host.driver.live.adopt(before)
        # only now: from here on the old host removes what is its own. Who lost the action meanwhile binds no port
        work.update_migration({"status": objects.PRE_MIGRATING})
        with work.host.events.listen(before.uuid) as listener:
            updates = _build(work, listener)
    except exception.LeaseLost:
        build.leave(work)
        raise
    except Exception as error:
        LOG.error("evacuation failed: %s", error, extra={"instance_uuid": before.uuid}, exc_info=needs_stack(error))
        _clean(work, before)
        raise
    work.succeed(updates)
    LOG.info("evacuated from %s", before.host, extra={"instance_uuid": before.uuid})


def _build(work: Work, listener: Listener) -> dict[str, object]:
    """The columns of the server once its guest is here."""
    host, before = work.host, work.instance
    assert work.migration is not None
    vifs = host.network.move(admin_context(), before, host.name)
    server = dataclasses.replace(before, host=host.name, network_info=vifs, block_devices=_connect(work, before))
    work.instance = server
    work.update({"task_state": states.REBUILD_SPAWNING}, [*work.verb.working])
    for vif in vifs:
        host.network.plug(server, vif)
    host.driver.spawn(server, vifs, build.guest_files(work, vifs), build.fetcher(work, server.image),
                      listener.waiter(admin_context(), server, vifs), work.check)
    volumes.complete_all(work)
    updates: dict[str, object] = {
        "host": host.name, "node": work.migration.dest_node, "launched_on": host.name,
        "availability_zone": work.action.arguments.get("zone") or before.availability_zone,
        "launched_at": units.utcnow().isoformat(), "personality": None, "network_info": [v.to_primitive() for v in vifs],
        **volumes.columns(server)}
    if work.action.arguments.get("stopped") or before.vm_state == states.STOPPED:
        host.driver.power_off(server, 0)
        updates |= {"vm_state": states.STOPPED, "power_state": states.SHUTDOWN}
    try:
        volumes.release_others(host, server)
    except exception.NovaLiteError as error:       # what the old host had of them; the delete finds it
        LOG.warning("volumes of the old host were not released yet: %s", error, extra={"instance_uuid": server.uuid})
    # The last step, and only of who still holds the action: once the files are this host's, removing its guest removes them,
    # and on shared storage there are no others.
    work.update({}, [*work.verb.working, None])
    host.driver.live.adopted(server)
    return updates


def _connect(work: Work, before: Instance) -> list[BlockDevice]:
    """Connect the volumes, and write down which host has done so: a guest may run with them when the next run begins."""
    host, facts = work.host, (work.migration.facts if work.migration is not None else None) or {}
    noted = facts.get("connected", {})
    known = noted.get("block_devices", ()) if noted.get("host") == host.name else ()
    devices = volumes.connect_elsewhere(host, before, [BlockDevice.from_primitive(d) for d in known])
    if before.volumes:
        work.update_migration({"facts": {**facts, "connected": {
            "host": host.name, "block_devices": [d.to_primitive() for d in devices]}}})
    return devices


def _clean(work: Work, before: Instance) -> None:
    """Nothing of the guest stays here. What cannot be removed now is found when the daemon starts, or by the delete. Raises
    GuestRemains for a guest that may run on: the old host must not have the server back then."""
    host, server = work.host, work.instance

    def end() -> None:
        with work.removing_guest(work.guest_may_run):
            host.driver.live.adopt(before)      # files on shared storage lose their owner again: they must outlive this guest
            host.driver.destroy(server, server.network_info)

    def attempt(step: Callable[[], object]) -> None:
        try:
            step()
        except exception.GuestRemains:
            raise
        except Exception as error:
            LOG.error("clean-up after a failed evacuation did not end well: %s", error, extra={"instance_uuid": server.uuid},
                      exc_info=needs_stack(error))

    # whatever came of connecting its volumes: it may have broken off half-way
    here = dataclasses.replace(server, block_devices=[dataclasses.replace(d) for d in server.block_devices])
    guest_removal.remove(host, here, end, attempt=attempt)
    # what follows is the server's, wherever it is built now
    attempt(lambda: work.update({}, [*work.verb.working, None, states.DELETING]))
    attempt(lambda: volumes.release_others(host, before))
    attempt(lambda: host.network.move(admin_context(), before, before.host or ""))      # the next run searches for them there
