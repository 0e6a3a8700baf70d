"""What a host does when its daemon starts: it takes up what the one before left, and makes guests and servers agree."""
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


class Found(NamedTuple):
    """What a host that starts has heard from the conductor."""

    cloud: str | None       # the id of its cloud; an older conductor tells none
    waiting: list[int]      # the actions that wait for this host
    unexpected: list[Instance]  # the servers whose guests must not be here
    went_down: list[str]    # the servers whose guests are to run again (:func:`resume`)


def run(conf: cfg.ConfigOpts, host: Host) -> Found:
    """Bring host and database together."""
    context = admin_context()
    host.network.init_host(host.name)
    guests = host.driver.power_states()
    found = host.conductor.host_started(context, host.name, host.owner, list(guests))
    unexpected = [Instance.from_primitive(values) for values in found["remove"]]
    servers = [Instance.from_primitive(values) for values in found["instances"]]
    elsewhere = {s.uuid for s in unexpected}        # a server that is being evacuated is still of this host
    went_down = [s.uuid for s in servers
                 if _should_run(host, s) and guests.get(s.uuid) == states.SHUTDOWN and s.uuid not in elsewhere]
    return Found(found.get("cloud"), list(found["actions"]), unexpected,
                 went_down if conf.compute.resume_guests_state_on_host_boot else [])


class Findings:
    """What looks at all guests find that somebody has to see to, in the log."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._told: dict[str, list[str]] = {}

    def tell(self, found: Mapping[str, Any]) -> None:
        """``found``: what the conductor answered. What may be the only copy of a server is told at each look, the rest when it
        has changed."""
        for one in found.get("unexplained", ()):
            LOG.error("its guest is here, and by the database it never was a server of this host, %s: the guest is left alone. "
                      "Was [DEFAULT] host changed, is this the hypervisor of another host, or was an old database restored?",
                      self._host.name, extra={"instance_uuid": one["uuid"]})
        for name, words in (("unknown", "guests of no server, which are left alone: %s"),
                            ("missing", "servers whose guests are not there: %s (a hard reboot makes them anew)")):
            uuids = sorted(found.get(name, ()))
            if uuids != self._told.get(name, []):
                LOG.warning(words, ", ".join(uuids) or "none any more")
            self._told[name] = uuids


def drop_left_behind(host: Host, uuid: str, _waited: bool = False) -> None:
    """What a move has left of a server here goes, when the server has settled elsewhere or is gone; its guest, too, should it
    have come. Of one that has settled here, with its guest, only what was set aside goes. In the server's queue."""
    context = admin_context()
    try:
        guests = host.driver.power_states()
        if uuid in guests:
            for values in host.conductor.sync_power_states(context, host.name, {uuid: guests[uuid]})["remove"]:
                remove(host, Instance.from_primitive(values))
        if uuid not in host.driver.left_behind():
            return
        if uuid in host.conductor.not_wanted(context, host.name, [uuid]):
            LOG.info("removing what its move has left here", extra={"instance_uuid": uuid})
            host.driver.drop_left_behind(uuid)
        elif uuid in guests and uuid in host.conductor.settled_here(context, host.name, [uuid]):
            LOG.info("removing what a move has set aside here", extra={"instance_uuid": uuid})
            host.driver.drop_aside(Instance.from_primitive(host.conductor.get_instance(context, uuid)))
    except Exception:
        LOG.exception("removing it failed; the next look tries again", extra={"instance_uuid": uuid})


def remove(host: Host, server: Instance) -> None:
    """The server was deleted, or moved away, while this host was not there. In the server's queue: it may have come back."""
    try:
        if server.uuid not in host.conductor.not_wanted(admin_context(), host.name, [server.uuid]):
            return
        LOG.warning("removing the guest of a server that is not of this host any more", extra={"instance_uuid": server.uuid})
        guest_removal.destroy(host, server)
    except Exception:
        LOG.exception("removing it failed; the next look tries again", extra={"instance_uuid": server.uuid})


def turn_off(host: Host, uuid: str) -> None:
    """The server was soft-deleted while this host was not there, or is back on its shelf after an unshelve that broke off: what
    it wrote there would be lost when it is offloaded. Or another host is about to build it anew, perhaps with the disks that
    are here. In the server's queue: it may have been restored."""
    try:
        if uuid in host.conductor.must_be_off(admin_context(), host.name, [uuid]):
            server = Instance.from_primitive(host.conductor.get_instance(admin_context(), uuid))
            LOG.warning("turning off the guest of a server that is soft-deleted, shelved or being evacuated: vm_state %s, "
                        "task_state %s", server.vm_state, server.task_state, extra={"instance_uuid": uuid})
            host.driver.power_off(server, 0)
    except exception.InstanceNotFound:
        LOG.info("deleted meanwhile", extra={"instance_uuid": uuid})
    except Exception:
        LOG.exception("turning it off failed; the next look tries again", extra={"instance_uuid": uuid})


def resume(host: Host, uuid: str, _waited: bool = False) -> None:
    """The guest ran before the host went down. In the server's queue: it may be on its way to another host by now."""
    try:
        server = Instance.from_primitive(host.conductor.get_instance(admin_context(), uuid))
        if not _should_run(host, server) or uuid in host.conductor.must_be_off(admin_context(), host.name, [uuid]):
            LOG.info("its guest is not to be started here any more", extra={"instance_uuid": uuid})
            return
        LOG.info("starting the guest, which ran before the host went down", extra={"instance_uuid": uuid})
        for vif in server.network_info:
            host.network.plug(server, vif)
        host.driver.power_on(server, server.network_info)
    except exception.InstanceNotFound:
        LOG.info("deleted meanwhile", extra={"instance_uuid": uuid})
    except Exception:
        LOG.exception("it does not start; its server becomes SHUTOFF", extra={"instance_uuid": uuid})


def _should_run(host: Host, server: Instance) -> bool:
    return (server.host, server.vm_state, server.task_state) == (host.name, states.ACTIVE, None)
