"""One action at work on this host: what its steps need, and what they tell the conductor."""
from __future__ import annotations

import datetime
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations, retry, units
from nova_lite.compute.external_events import ExternalEvents
from nova_lite.context import RequestContext
from nova_lite.image.base import ImageAPI
from nova_lite.network.base import NetworkAPI
from nova_lite.objects.action import GUEST_AT, Action
from nova_lite.objects.instance import DEVICE_ADDRESSES, Instance
from nova_lite.objects.migration import Migration
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.share.base import ShareAPI
from nova_lite.virt.driver import ComputeDriver
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
_UNAVAILABLE = retry.Schedule((1.0, 2.0, 4.0, 8.0), endless=True)
T = TypeVar("T")


@dataclass(frozen=True)
class Host:
    """What every operation on a host may use."""

    name: str
    owner: str
    driver: ComputeDriver
    image: ImageAPI
    network: NetworkAPI
    volume: VolumeAPI
    conductor: ConductorAPI
    events: ExternalEvents
    conf: cfg.ConfigOpts
    share: ShareAPI
    vendor_data: dict[str, Any] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)      # set: nothing more begins
    clock: retry.Clock = retry.SYSTEM

    def pause(self, seconds: float) -> None:
        """Raises Stopping when the daemon stops."""
        if self.clock.wait(self.stopping, seconds):
            raise exception.Stopping()


class Work:
    """An action that this process holds, with its server (and its move, when it is one) as the database has it."""

    def __init__(self, host: Host, context: RequestContext, action: Action, instance: Instance,
                 migration: Migration | None = None, asked: float = float("-inf")) -> None:
        self.host, self.context, self.action, self.instance = host, context, action, instance
        self.migration = migration
        self.verb = operations.of(action)
        self.event = f"compute_{self.verb.event}"      # what os-instance-actions calls it
        self.started = units.utcnow()
        self._asked = asked     # for the action, by time.monotonic()
        self._steps: list[dict[str, Any]] = []
        self._told: Exception | None = None     # the error of a step

    @contextmanager
    def step(self, event: str) -> Iterator[None]:
        """A part of the work that os-instance-actions shows by itself; told with the end of the action, or its hand-over."""
        started = units.utcnow()
        try:
            yield
        except Exception as error:
            self._steps.append(self._event_of(event, started, error))
            self._told = error
            raise
        self._steps.append(self._event_of(event, started))

    def update(self, updates: dict[str, Any], expected_task_states: list[str | None]) -> None:
        """Change the server on the way. Raises UnexpectedTaskState or LeaseLost: then stop."""
        self.host.conductor.instance_update(self.instance.uuid, updates, expected_task_states, self.action.id,
                                            self.host.owner)

    def check(self) -> None:
        """Before the first instruction of a guest that another host can be given: raises LeaseLost or UnexpectedTaskState when
        this one shall not run it, or what says that no conductor answers. Nobody takes an action whose lease has just begun:
        then nobody is asked, unless the disks may be seen by other hosts. Of these it is noted that the guest may run here:
        who finds this host dead does not give them to another one."""
        expected = [*self.verb.working, None]      # None: declared idle by os-resetState
        if self.instance.volumes or self.verb.guest is operations.Guest.RETURNS:
            self.guest_begins()
        elif time.monotonic() - self._asked >= self.host.conf.conductor.lease_seconds / 2:
            self.update({}, expected)

    def guest_begins(self) -> None:
        """Note that the guest of this action may run here from now on: see :attr:`guest_may_run`. Raises as ``check``."""
        expected = [*self.verb.working, None]
        self.host.conductor.instance_update(self.instance.uuid, {}, expected, self.action.id, self.host.owner,
                                            guest_begins=True)
        self.action.arguments[GUEST_AT] = self.host.name

    @property
    def guest_may_run(self) -> bool:
        """Whether the guest of this action may have begun to run here, in this run of it or an earlier one."""
        return self.action.arguments.get(GUEST_AT) == self.host.name

    @contextmanager
    def removing_guest(self, may_run: bool) -> Iterator[None]:
        """The guest that failed here is removed. Where it ``may_run``, what is raised becomes GuestRemains: ports and volumes
        stay its own then, and nobody else may begin it."""
        try:
            yield
        except Exception as error:
            if not may_run:
                raise
            raise exception.GuestRemains(operation=self.action.action, host=self.host.name, reason=error) from error

    def note(self, arguments: dict[str, Any]) -> None:
        """Add to the action's arguments what whoever takes it up after us must know. Raises as :meth:`update`."""
        self.host.conductor.instance_update(self.instance.uuid, {}, [*self.verb.working], self.action.id,
                                            self.host.owner, arguments=arguments)
        self.action.arguments = {**self.action.arguments, **arguments}

    def update_device(self, device_id: str, values: dict[str, Any] | None) -> None:
        """Change one block device, or (None) remove it. Raises InstanceNotFound or LeaseLost: then stop."""
        self.host.conductor.block_device_update(self.instance.uuid, device_id, values, self.action.id, self.host.owner)

    def update_nic(self, port_id: str, nic: dict[str, Any] | None) -> None:
        """Put one nic in its place, or (None) remove it. Raises InstanceNotFound or LeaseLost: then stop."""
        self.host.conductor.nic_update(self.instance.uuid, port_id, nic, self.action.id, self.host.owner)

    def update_migration(self, values: dict[str, Any]) -> str | None:
        """Change the move that the action is: its status, its progress, its facts. Raises LeaseLost: then stop.

        Answers what somebody wants of it meanwhile: "abort", "force_complete", or None."""
        assert self.migration is not None
        wanted = self.host.conductor.migration_update(self.migration.id, values, self.action.id, self.host.owner)
        for name, value in values.items():
            setattr(self.migration, name, value)
        return wanted

    def hand_over(self, step: str, arguments: dict[str, Any] | None = None, updates: dict[str, Any] | None = None) -> None:
        """The host of the move that does ``step`` goes on with the action; what was done so far is told as an event.

        ``arguments`` are added to the action's, ``updates`` go to the server. Raises LeaseLost: then stop.
        """
        row = operations.named(self.verb.steps, step)
        assert row is not None
        assert self.migration is not None
        host = row.host(self.migration)
        self.host.conductor.hand_over(self.action.id, self.host.owner, host, updates or {}, arguments or {}, self._events(),
                                      step)

    def ask_other_host(self, question: str) -> Any:
        """What the other host of the move answers: see :meth:`ConductorAPI.ask_other_host`."""
        return self.host.conductor.ask_other_host(self.action.id, self.host.owner, question)

    def wait(self, error: Exception | None = None) -> None:
        """This host, and no other, takes the action up again; an error is told as an event, once. Nobody has died over it."""
        self.host.conductor.wait(self.action.id, self.host.owner, self._events(error) if error is not None else [])

    def succeed(self, updates: dict[str, Any] | None = None) -> None:
        """The server ends where the table of operations says."""
        self.host.conductor.finish_action(self.action.id, self.host.owner, {**self._device_addresses(), **(updates or {})},
                                          self._events())

    def _device_addresses(self) -> dict[str, Any]:
        """What the guest's metadata say of tagged devices, where the work has changed it."""
        instance = self.instance
        if not instance.has_device_tags:
            return {}
        try:
            found = self.host.driver.device_addresses(instance)
        except exception.NovaLiteError as error:
            LOG.warning("where the guest finds its tagged devices is not known: %s", error,
                        extra={"instance_uuid": instance.uuid})
            return {}
        return {DEVICE_ADDRESSES: found} if found and found != instance.device_addresses else {}

    def fail(self, error: Exception, updates: dict[str, Any]) -> None:
        """The server ends as ``updates`` say, with the error as its fault."""
        self.host.conductor.finish_action(self.action.id, self.host.owner, updates, self._events(error),
                                          error=exception.public_of(error))

    def build_failed(self, error: Exception, reschedule: bool) -> None:
        """Another host may try, or the server ends in ERROR."""
        self.host.conductor.build_failed(self.action.id, self.host.owner, exception.public_of(error), _trace(error),
                                         self._events(error), reschedule)

    def _events(self, error: Exception | None = None) -> list[dict[str, Any]]:
        """The steps, and an error that came outside of them; or the whole work as one where it has none."""
        if self._steps and (error is None or error is self._told):
            return self._steps
        return [*self._steps, self._event_of(self.event, self.started, error)]

    def _event_of(self, event: str, started: datetime.datetime, error: Exception | None = None) -> dict[str, Any]:
        now: datetime.datetime = units.utcnow()
        return {"event": event, "host": self.host.name, "start_time": started.isoformat(),
                "finish_time": now.isoformat(), "result": "Error" if error else "Success",
                "traceback": _trace(error) if error else None, "details": message_of(error)[:255] if error else None}


def retry_until_available(work: Work, step: Callable[[], T]) -> T:
    """The result of ``step``, retried until the service that it asks is available; it must be one that can be run twice.

    For steps past the last undo of a move, which must not fail. After each pause the action must still be ours and the server
    not be deleted: else LeaseLost, UnexpectedTaskState or InstanceNotFound. A stop of the daemon ends the retries (Stopping).
    os-resetState does not end them: the guest is half-way.
    """
    def tell(error: Exception, pause: float) -> None:
        LOG.warning("'%s' goes on in %s s: %s", work.verb.name, pause, error, extra={"instance_uuid": work.instance.uuid})

    def sleep(seconds: float) -> None:
        work.host.pause(seconds)
        work.update({}, [*work.verb.working, None])

    return retry.on_error(step, exception.ServiceUnavailable, _UNAVAILABLE, work.host.clock, sleep=sleep, before_pause=tell)


def ignore_conductor_outage(ask: Callable[[], object]) -> Callable[[], None]:
    """``ask`` without ConductorAway: a long step goes on while the conductor does not answer."""
    def check() -> None:
        try:
            ask()
        except exception.ConductorAway as error:
            LOG.warning("asking the conductor again later: %s", error)
    return check


def needs_stack(error: Exception) -> bool:
    """Whether the log is to have the stack of an error: one of ours, as of a neighbour that is down, says all by itself."""
    return not isinstance(error, exception.NovaLiteError)


def message_of(error: Exception) -> str:
    """What an operator is told of an error."""
    return str(error) or type(error).__name__


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-8000:]
