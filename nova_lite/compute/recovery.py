"""What a host does when its daemon starts: it continues the open actions, and compares guests with servers."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.compute import guest_removal
from nova_lite.compute.work import Host
from nova_lite.context import admin_context
from nova_lite.objects import states
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
_COPYING = (states.RESIZE_PREP, states.RESIZE_MIGRATING)


class Found(NamedTuple):
    """The conductor's answer to a host that starts."""

    cloud: str | None       # the id of its cloud; an older conductor sends none
    waiting: list[int]      # actions that wait for this host
    unexpected: list[Instance]  # servers whose guests must be removed
    went_down: list[str]    # servers whose guests are started again (:func:`resume`)


def run(conf: cfg.ConfigOpts, host: Host) -> Found:
    """Compare host and database."""
    context = admin_context()
    host.network.init_host(host.name)
    guests = host.driver.power_states()
    found = host.conductor.host_started(context, host.name, host.owner, list(guests))
    unexpected = [Instance.from_primitive(values) for values in found["remove"]]
    elsewhere = {s.uuid for s in unexpected}        # a server that is being evacuated is still of this host
    went_down = [s["uuid"] for s in found["instances"] if _should_run(host, s["host"], s["vm_state"], s["task_state"])
                 and guests.get(s["uuid"]) == states.SHUTDOWN and s["uuid"] not in elsewhere]
    return Found(found.get("cloud"), list(found["actions"]), unexpected,
                 went_down if conf.compute.resume_guests_state_on_host_boot else [])


class Findings:
    """Logs differences between guests and servers that an operator has to resolve."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._told: dict[str, list[str]] = {}

    def tell(self, found: Mapping[str, Any]) -> None:
        """``found``: the conductor's answer. A guest that may be the only copy of a server is logged each time, other
        differences when they change."""
        for one in found.get("unexplained", ()):
            LOG.error("its guest is here, and by the database it never was a server of this host, %s: the guest is left alone. "
                      "Was [DEFAULT] host changed, is this the hypervisor of another host, or was an old database restored?",
                      self._host.name, extra={"instance_uuid": one["uuid"]})
        for name, words in (("unknown", "guests of no server, which are left alone: %s"),
                            ("missing", "servers whose guests are not there: %s (a hard reboot makes them again)")):
            uuids = sorted(found.get(name, ()))
            if uuids != self._told.get(name, []):
                LOG.warning(words, ", ".join(uuids) or "none any more")
            self._told[name] = uuids


def drop_left_behind(host: Host, uuid: str, _waited: bool = False) -> None:
    """Remove what a move has left of a server here, when the server is at rest on another host or deleted; also its guest, if
    it is here. When the server is at rest on this host, with its guest, only the files that were set aside are removed. Disks
    that the new host has copied are not served any more. Runs in the server's queue."""
    context = admin_context()
    try:
        guests = host.driver.power_states()
        if uuid in guests:
            for values in host.conductor.sync_power_states(context, host.name, {uuid: guests[uuid]})["remove"]:
                remove(host, Instance.from_primitive(values))
        if uuid not in host.driver.left_behind():
            return
        if uuid in host.conductor.not_wanted(context, host.name, [uuid]):
            LOG.info("removing files that its move has left here", extra={"instance_uuid": uuid})
            host.driver.drop_left_behind(uuid)
        elif uuid in guests and uuid in host.conductor.settled_here(context, host.name, [uuid]):
            LOG.info("removing files that a move has set aside here", extra={"instance_uuid": uuid})
            host.driver.drop_aside(Instance.from_primitive(host.conductor.get_instance(context, uuid)))
        elif host.driver.offers_disks(uuid):
            _withdraw_disks(host, Instance.from_primitive(host.conductor.get_instance(context, uuid)))
    except Exception:
        LOG.exception("the removal failed; the next comparison tries again", extra={"instance_uuid": uuid})


def _withdraw_disks(host: Host, server: Instance) -> None:
    """Stop serving the disks of a server when its new host has copied them: this daemon may have missed the message."""
    if server.task_state not in _COPYING:
        LOG.info("its disks are not served any more: the new host has copied them", extra={"instance_uuid": server.uuid})
        host.driver.withdraw_disks(server)


def remove(host: Host, server: Instance) -> None:
    """Remove the guest of a server that was deleted, or that moved away, while this daemon did not run. Runs in the server's
    queue: the server may have returned."""
    try:
        if server.uuid not in host.conductor.not_wanted(admin_context(), host.name, [server.uuid]):
            return
        LOG.warning("removing the guest of a server that is no longer at this host", extra={"instance_uuid": server.uuid})
        guest_removal.destroy(host, server)
    except Exception:
        LOG.exception("the removal failed; the next comparison tries again", extra={"instance_uuid": server.uuid})


def turn_off(host: Host, uuid: str) -> None:
    """Turn off the guest of a server that was soft-deleted while this daemon did not run, or whose unshelve was interrupted:
    its disk would be lost at the next offload. Or another host is about to build the server again, perhaps with the same disks.
    Runs in the server's queue: the server may have been restored."""
    try:
        if uuid in host.conductor.must_be_off(admin_context(), host.name, [uuid]):
            server = Instance.from_primitive(host.conductor.get_instance(admin_context(), uuid))
            LOG.warning("turning off the guest of a server that is soft-deleted, shelved or being evacuated: vm_state %s, "
                        "task_state %s", server.vm_state, server.task_state, extra={"instance_uuid": uuid})
            host.driver.power_off(server, 0)
    except exception.InstanceNotFound:
        LOG.info("deleted meanwhile", extra={"instance_uuid": uuid})
    except Exception:
        LOG.exception("turning the guest off failed; the next comparison tries again", extra={"instance_uuid": uuid})


def resume(host: Host, uuid: str, _waited: bool = False) -> None:
    """Start a guest that ran before the host went down. Runs in the server's queue: the guest may be moving by now."""
    try:
        server = Instance.from_primitive(host.conductor.get_instance(admin_context(), uuid))
        should_run = _should_run(host, server.host, server.vm_state, server.task_state)
        if not should_run or uuid in host.conductor.must_be_off(admin_context(), host.name, [uuid]):
            LOG.info("its guest must not be started here any more", extra={"instance_uuid": uuid})
            return
        LOG.info("starting the guest, which ran before the host went down", extra={"instance_uuid": uuid})
        for vif in server.network_info:
            host.network.plug(server, vif)
        host.driver.power_on(server, server.network_info)
    except exception.InstanceNotFound:
        LOG.info("deleted meanwhile", extra={"instance_uuid": uuid})
    except Exception:
        LOG.exception("the guest does not start; its server becomes SHUTOFF", extra={"instance_uuid": uuid})


def _should_run(host: Host, place: str | None, vm_state: str, task_state: str | None) -> bool:
    return (place, vm_state, task_state) == (host.name, states.ACTIVE, None)
