"""The base of all parts of the compute API: the lookup of a server, and the one way to begin an operation on it."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations, retry
from nova_lite.context import RequestContext
from nova_lite.db import actions, host_keys, instances
from nova_lite.db.core import Database
from nova_lite.image.base import ImageAPI
from nova_lite.network.base import NetworkAPI
from nova_lite.objects import action as action_objects
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.hardware import pci
from nova_lite.objects.instance import Instance
from nova_lite.rpc import compute as rpcapi
from nova_lite.rpc import sender
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.rpc.wakeups import Wakeups
from nova_lite.share import base as share_base
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
WHILE_BUSY = retry.every(0.1, timeout=10.0)     # what takes a guest away waits for a change of its devices


class Prepared(NamedTuple):
    """What an operation writes besides its action: columns of the server, and further arguments of the action. ``host``: the
    host that does the work, where that is not the server's host."""

    updates: Mapping[str, Any] = {}
    arguments: Mapping[str, Any] = {}
    host: str | None = None


Prepare = Callable[[sa.Connection, Instance], Prepared]


class Base:
    """Holds the neighbours; nothing connects before its first use."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database, transport: messaging.RPCTransport, image: ImageAPI,
                 network: NetworkAPI, volume: VolumeAPI, clock: retry.Clock = retry.SYSTEM) -> None:
        self.conf = conf
        self.clock = clock
        self.db = db
        self.image = image
        self.network = network
        self.volume = volume
        self.share = share_base.load(conf)
        self.pci_aliases = pci.aliases(conf.pci.alias)
        self.compute_rpc = rpcapi.ComputeAPI(transport, sender.to_hosts(conf, host_keys.Generations(db)))
        self.conductor_rpc = ConductorAPI(transport, sender.of_control(conf))
        self.wakeups = Wakeups()

    def with_devices(self, flavor: Flavor) -> Flavor:
        """The flavor of a server, with the present meaning of its PCI aliases. Raises PciRequestAliasNotDefined, or
        InvalidHardware for a value that cannot be read (400)."""
        return dataclasses.replace(flavor, pci_requests=pci.requests(flavor, self.pci_aliases))

    def get(self, context: RequestContext, uuid: str, deleted: bool = False) -> Instance:
        """A server that the caller may see: of its project, or any server for an admin. Raises InstanceNotFound."""
        with self.db.read() as connection:
            instance = instances.get(connection, uuid, deleted=deleted)
        check_visible(context, instance.project_id, uuid)
        return instance

    def operate(self, context: RequestContext, uuid: str, verb: str, arguments: Mapping[str, Any] | None = None,
                prepare: Prepare | None = None) -> None:
        """Begin a verb of ``operations.VERBS``: write the action, then wake its worker.

        ``prepare`` is called in the transaction, with the server locked and its state checked. It does further checks (such as
        a quota) and returns further values to write. Raises InstanceNotFound, InstanceIsLocked, InstanceNotReady or
        InstanceInvalidState.
        """
        begun = self._begun(context, uuid, verb, arguments or {}, prepare)
        if begun is None:
            LOG.info("%s: is under way already", verb, extra={"instance_uuid": uuid})
            return
        action_id, host = begun
        LOG.info("%s: action %s on %s", verb, action_id, host or "the conductor", extra={"instance_uuid": uuid})
        if host is None:
            self.wakeups.send(self.conductor_rpc.run_action, context, [action_id])
        else:
            self.wakeups.send(self.compute_rpc.wake, context, host, [action_id])

    def _begun(self, context: RequestContext, uuid: str, verb: str, arguments: Mapping[str, Any],
               prepare: Prepare | None) -> tuple[int, str | None] | None:
        """A volume shows as attached or free a moment before its action ends: who goes by that shall not be refused."""
        return retry.on_error(
            lambda: self.db.write(_begin, context, uuid, verb, arguments, self.conf.conductor.lease_seconds, prepare),
            exception.InstanceIsBusy, WHILE_BUSY, self.clock)


def check_visible(context: RequestContext, project_id: str, uuid: str) -> None:
    """Raise InstanceNotFound for a server of another project: a caller who may not see the server must not learn that it
    exists."""
    if not context.is_admin and project_id != context.project_id:
        raise exception.InstanceNotFound(instance_id=uuid)


def _begin(connection: sa.Connection, context: RequestContext, uuid: str, verb: str, arguments: Mapping[str, Any],
           lease_seconds: float, prepare: Prepare | None = None) -> tuple[int, str | None] | None:
    """Action and host (None: a conductor begins); None when just this is waiting to be done already."""
    instance = instances.get(connection, uuid, lock=True)
    row = operations.VERBS[verb]
    operations.check(row, instance, may_override_lock=bool(context.is_admin))
    if row.task_state == instance.task_state and row.is_repeatable:
        waiting = actions.open_of_instances(connection, [uuid]).get(uuid, ())
        if any(other.task_state == row.task_state for _, other in operations.known(waiting)):
            return None
    actions.check_not_busy(connection, verb, uuid)
    prepared = prepare(connection, instance) if prepare is not None else Prepared()
    task_state = instance.task_state if row.keeps_state else row.task_state
    instances.update(connection, uuid, {"task_state": task_state, **prepared.updates}, [instance.task_state],
                     [instance.vm_state])
    host = None if row.begins is operations.Begins.CONDUCTOR else prepared.host or instance.host
    stage = action_objects.COMPUTE if host else action_objects.CONDUCTOR
    made = actions.create(connection, context, verb, [uuid], lease_seconds, stage, host, {**arguments, **prepared.arguments})
    return made[0], host
