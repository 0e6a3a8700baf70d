"""The source of a cold migration: it shuts the guest down and shows its disks, when the destination asks for it.

The other host leads and asks again and again; here nothing is written down. Before anything is done to the guest, the conductor
is asked whether the other host still holds the move: a question that was late must not stop a guest that has long come back.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from oslo_log import log

from nova_lite import exception
from nova_lite.compute import guest_removal
from nova_lite.compute.work import Host, needs_stack
from nova_lite.context import RequestContext
from nova_lite.objects import states
from nova_lite.objects.instance import Instance
from nova_lite.rpc import expected

ANSWER_SECONDS = 4.0          # seconds for which a question waits for its answer; less than rpc/compute.py does

LOG = log.getLogger(__name__)
Later = Callable[[str, Callable[[bool], None]], None]
"""Takes a server's uuid and a function; queues the function behind what is done with the server."""


class MigrationSource:
    """A part of the server side of ``rpc/compute.py``."""

    def __init__(self, host: Host, later: Later) -> None:
        self._host, self._later = host, later
        self._lock = threading.Condition()
        self._leaving: set[tuple[str, int]] = set()
        self._failed: dict[tuple[str, int], Exception] = {}
        self._offers: dict[tuple[str, int], dict[str, Any]] = {}

    @expected
    def leave(self, context: RequestContext, instance_uuid: str, action_id: int, owner: str,
              move: str) -> dict[str, Any] | None:
        """Shut the guest down and show its disks: ``objects.DiskOffer`` as a dictionary; None: it takes a while, ask again.
        Raises VirtDriverError when it cannot be done."""
        key = (instance_uuid, action_id)
        with self._lock:
            begin = not (key in self._failed or key in self._offers or key in self._leaving)
            if begin:
                self._leaving.add(key)
        if begin:
            self._later(instance_uuid, lambda _waited: self._leave(context, key, owner, move))
        with self._lock:
            self._lock.wait_for(lambda: key not in self._leaving, ANSWER_SECONDS)
            failed, offer = self._failed.pop(key, None), self._offers.pop(key, None)
        if failed is not None:
            raise exception.DriverRefusal(what="Leaving the old host", reason=failed)
        return offer

    def _leave(self, context: RequestContext, key: tuple[str, int], owner: str, move: str) -> None:
        uuid, action_id = key
        try:
            self._host.conductor.instance_update(uuid, {}, [states.RESIZE_MIGRATING], action_id, owner)
            instance = Instance.from_primitive(self._host.conductor.get_instance(context, uuid))
            release_guest(self._host, instance, move)
            offer = self._host.driver.offer_disks(instance).to_primitive()
            with self._lock:
                self._offers[key] = offer
        except exception.Interrupted as error:
            LOG.warning("the guest stays: %s", error, extra={"instance_uuid": uuid})
        except Exception as error:
            LOG.error("it cannot leave: %s", error, extra={"instance_uuid": uuid}, exc_info=needs_stack(error))
            with self._lock:
                self._failed[key] = error
        finally:
            with self._lock:
                self._leaving.discard(key)
                self._lock.notify_all()

    @expected
    def holds(self, context: RequestContext, instance: dict[str, Any], move: str) -> dict[str, bool]:
        """See the function of this name."""
        return holds(self._host, Instance.from_primitive(instance), move)

    def arrived(self, context: RequestContext, instance: dict[str, Any]) -> None:
        """The disks were copied: they need not be shown any more."""
        self._host.driver.withdraw_disks(Instance.from_primitive(instance))


def holds(host: Host, instance: Instance, move: str) -> dict[str, bool]:
    """What this host has of a server: ``guest``, and ``aside``, what a move has set aside."""
    return {"guest": host.driver.power_state(instance) is not None, "aside": host.driver.has_aside(instance, move)}


def release_guest(host: Host, instance: Instance, move: str) -> None:
    """The guest is shut down and set aside for a move, its nics and volumes are not of this host any more."""
    LOG.info("the guest leaves this host", extra={"instance_uuid": instance.uuid})
    timeout = host.conf.compute.shutdown_timeout
    guest_removal.remove(host, instance, lambda: host.driver.set_aside(instance, instance.network_info, timeout, move))
