"""Nics of existing servers: attach, which waits for the host, and detach, which does not.

Both are durable: a request that ends in the middle, or a host that dies, does not lose them.
"""
from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception, operations, retry
from nova_lite.compute.api.base import Base
from nova_lite.compute.external_events import CHANGED, COMPLETED
from nova_lite.context import RequestContext, admin_context
from nova_lite.db import actions, instances
from nova_lite.objects import action as action_objects
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, NetworkRequest
from nova_lite.operations import record_changes

LOG = log.getLogger(__name__)
ATTACHES = retry.Schedule((0.05, 0.05, 0.1, 0.2, 0.5), endless=True, timeout=60.0)      # a request waits for the host


class Interfaces(Base):
    """The part of the compute API for nics."""

    def list_interfaces(self, context: RequestContext, instance: Instance) -> list[tuple[VIF, str]]:
        """The nics with the states of their ports, without nics whose port does not exist any more."""
        vifs = [vif for vif in instance.network_info if vif.type != "null"]
        found = self.network.port_states(context, [vif.id for vif in vifs]) if vifs else {}
        return [(vif, found[vif.id]) for vif in vifs if vif.id in found]

    def get_interface(self, context: RequestContext, instance: Instance, port_id: str) -> tuple[VIF, str]:
        """One of them. Raises PortNotFound."""
        found = next((pair for pair in self.list_interfaces(context, instance) if pair[0].id == port_id), None)
        if found is None:
            raise exception.PortNotFound(port_id=port_id)
        return found

    def attach_interface(self, context: RequestContext, instance: Instance, request: NetworkRequest,
                         may_use_external: bool = False) -> tuple[VIF, str]:
        """Attach a nic to a server, and wait until the guest has it. Raises the errors of the network (400, 403, 404, 409),
        those of ``states.check`` (409), InterfaceAttachFailed (500) and ServiceUnavailable."""
        _check(context, instance, "attach_interface")
        with _as_nova_answers():
            request, groups = self._checked(context, instance, request, may_use_external)
        request.key = uuids.uuid4().hex[:16]
        lease = float(self.conf.conductor.lease_seconds)
        action_id, host = self.db.write(_begin, context, instance.uuid, "attach_interface", request, None, lease)
        LOG.info("attach_interface: action %s on %s", action_id, host, extra={"instance_uuid": instance.uuid})
        self.wakeups.send(self.compute_rpc.wake, context, host, [action_id])
        with _as_nova_answers():
            self._wait(instance.uuid, action_id)
        with self.db.read() as connection:
            found = instances.get(connection, instance.uuid)
        vif = next((v for v in found.network_info if v.key == request.key), None)
        if vif is None:
            raise exception.InterfaceAttachFailed(instance_id=instance.uuid, reason="it was detached again meanwhile")
        self.db.write(_join_groups, instance.uuid, vif.id, groups)
        return vif, self.network.port_states(context, [vif.id]).get(vif.id, "DOWN")

    def detach_interface(self, context: RequestContext, instance: Instance, port_id: str) -> None:
        """Let the host take a nic from the guest and give its port back. Raises PortNotFound and as ``states.check``."""
        lease = float(self.conf.conductor.lease_seconds)
        action_id, host = self.db.write(_begin, context, instance.uuid, "detach_interface", None, port_id, lease)
        LOG.info("detach_interface %s: action %s on %s", port_id, action_id, host, extra={"instance_uuid": instance.uuid})
        self.wakeups.send(self.compute_rpc.wake, context, host, [action_id])

    def add_fixed_ip(self, context: RequestContext, instance: Instance, network_id: str) -> None:
        """One more address for a nic of the server. Raises Invalid (400) as ``NetworkAPI.add_address``, InstanceIsLocked."""
        operations.check(record_changes.CHANGE_ADDRESSES, instance, may_override_lock=bool(context.is_admin))
        self.network.add_address(admin_context(), instance, network_id)
        self._look_again(context, instance)

    def remove_fixed_ip(self, context: RequestContext, instance: Instance, address: str) -> None:
        """The inverse. Raises FixedIpNotFoundForInstance (400), InstanceIsLocked."""
        operations.check(record_changes.CHANGE_ADDRESSES, instance, may_override_lock=bool(context.is_admin))
        self.network.remove_address(admin_context(), instance, address)
        self._look_again(context, instance)

    def _look_again(self, context: RequestContext, instance: Instance) -> None:
        """As an event of the network about a changed port. The network sends such an event too, so this call may be lost."""
        if instance.host:
            event = {"name": CHANGED, "server_uuid": instance.uuid, "tag": None, "status": COMPLETED}
            self.wakeups.send(self.compute_rpc.external_instance_event, context, instance.host, [event])

    def _checked(self, context: RequestContext, instance: Instance, request: NetworkRequest,
                 may_use_external: bool) -> tuple[NetworkRequest, list[str]]:
        """The request with the network's data, and the names of the port's security groups. A request without network and port
        means the only network of the server's project."""
        named = [request] if request.network_id or request.port_id else None
        wanted = self.network.validate(context, named, 1, may_use_external=may_use_external, server=instance)
        if isinstance(wanted.requests, list) and wanted.requests:
            [made] = wanted.requests
            made.tag = request.tag
            return made, wanted.security_groups
        if wanted.requests == "none" or not self.network.list_networks(context):
            raise exception.InterfaceAttachFailedNoNetwork(project_id=instance.project_id)
        return request, wanted.security_groups

    def _wait(self, instance_uuid: str, action_id: int) -> None:
        def look() -> Action | None:
            with self.db.read() as connection:
                return actions.get(connection, action_id)

        ended = (action_objects.DONE, action_objects.ERROR)
        action = retry.poll(look, lambda found: found is None or found.state in ended, ATTACHES, self.clock)
        if action is None or action.state == action_objects.ERROR:
            raise _error(instance_uuid, action)
        if action.state != action_objects.DONE:
            raise exception.ServiceUnavailable(
                what=f"Host {action.host}", reason="it did not attach the interface within "
                f"{ATTACHES.timeout:.0f} seconds", public="The compute host of the server did not attach the "
                f"interface within {ATTACHES.timeout:.0f} seconds; it may still do so: see the server's actions")


@contextmanager
def _as_nova_answers() -> Iterator[None]:
    """Two errors have another status here than at the creation of a server."""
    try:
        yield
    except exception.NetworkAmbiguous as error:
        raise exception.Invalid(error.public) from error
    except exception.FixedIpAlreadyInUse as error:
        raise exception.Conflict(error.public) from error


def _error(instance_uuid: str, action: Action | None) -> exception.NovaLiteError:
    """The error of the host: a mistake of the request unchanged, all other errors as a failed attach."""
    name, message = (action.arguments.get("error") if action else None) or ("", "its host gave up")
    kind = getattr(exception, name, None)
    if isinstance(kind, type) and issubclass(kind, exception.NovaLiteError) and (
            kind.code < 500 or kind in (exception.ServiceUnavailable, exception.InterfaceAttachFailed)):
        return kind(message)
    return exception.InterfaceAttachFailed(instance_id=instance_uuid, reason=message)


def _check(context: RequestContext, instance: Instance, verb: str) -> str:
    """The host of the server. Raises the errors of ``states.check``, InstanceNotReady for a server without a host."""
    operations.check(operations.VERBS[verb], instance, may_override_lock=bool(context.is_admin))
    if not instance.host:
        raise exception.InstanceNotReady(instance_id=instance.uuid)
    return instance.host


def _join_groups(connection: sa.Connection, uuid: str, port_id: str, names: list[str]) -> None:
    """Views show the groups of a new nic, too."""
    instance = instances.get(connection, uuid, lock=True)
    before = instance.security_groups if any(vif.id != port_id for vif in instance.network_info) else []
    now = list(dict.fromkeys([*before, *names]))
    if now != instance.security_groups:
        instances.update(connection, uuid, {"security_groups": now})


def _begin(connection: sa.Connection, context: RequestContext, uuid: str, verb: str, request: NetworkRequest | None,
           port_id: str | None, lease_seconds: float) -> tuple[int, str]:
    instance = instances.get(connection, uuid, lock=True)
    if port_id is not None and all(vif.id != port_id for vif in instance.network_info):
        raise exception.PortNotFound(port_id=port_id)
    host = _check(context, instance, verb)
    if request is not None and request.tag and any(v.tag == request.tag for v in instance.network_info):
        raise exception.Invalid(f"The device tag {request.tag} is in use already")
    arguments = {"port_id": port_id} if request is None else {"request": request.to_primitive()}
    [action_id] = actions.create(connection, context, verb, [uuid], lease_seconds, action_objects.COMPUTE, host, arguments)
    return action_id, host
