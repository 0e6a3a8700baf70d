"""One action at work on this host: what its steps use, and what they report to the conductor."""
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
    """An action of this process, with its server (and its move, if it has one) as in the database."""

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
        """A part of the work that os-instance-actions shows as an event; reported with the end or the hand-over of the
        action."""
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
        """Ask whether the guest may run, before its first instruction. Raises LeaseLost or UnexpectedTaskState when it may not,
        and ConductorAway when no conductor answers.

        A lease that has just begun cannot be lost, so the conductor is asked only when the lease is older. When other hosts can
        reach the disks, the conductor is always asked, and records that the guest may run here: if this host dies, no other
        host gets the server.
        """
        expected = [*self.verb.working, None]      # None: declared idle by os-resetState
        if self.instance.volumes or self.verb.guest is operations.Guest.RETURNS:
            self.guest_begins()
        elif time.monotonic() - self._asked >= self.host.conf.conductor.lease_seconds / 2:
            self.update({}, expected)

    def guest_begins(self) -> None:
        """Record that the guest of this action may run here from now on: see :attr:`guest_may_run`. Raises as ``check``."""
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
        """Around the removal of a guest that failed here. When the guest ``may_run``, an exception becomes GuestRemains: the
        guest keeps its ports and volumes, and no other host may build the server."""
        try:
            yield
        except Exception as error:
            if not may_run:
                raise
            raise exception.GuestRemains(operation=self.action.action, host=self.host.name, reason=error) from error

    def note(self, arguments: dict[str, Any]) -> None:
        """Add to the action's arguments what the next worker of the action needs. Raises as :meth:`update`."""
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
        """Change the row of the move: its status, progress, facts. Raises LeaseLost: then stop.

        Returns what the user wants of the move: "abort", "force_complete", or None.
        """
        assert self.migration is not None
        wanted = self.host.conductor.migration_update(self.migration.id, values, self.action.id, self.host.owner)
        for name, value in values.items():
            setattr(self.migration, name, value)
        return wanted

    def hand_over(self, step: str, arguments: dict[str, Any] | None = None, updates: dict[str, Any] | None = None) -> None:
        """Give the action to the host of the move that does ``step``. Reports what was done so far as an event.

        ``arguments`` are added to those of the action, ``updates`` go to the server. Raises LeaseLost: then stop.
        """
        row = operations.named(self.verb.steps, step)
        assert row is not None
        assert self.migration is not None
        host = row.host(self.migration)
        self.host.conductor.hand_over(self.action.id, self.host.owner, host, updates or {}, arguments or {}, self._events(),
                                      step)

    def ask_other_host(self, question: str, silence: float = 0.0) -> Any:
        """The other host's answer to a question: see :meth:`ConductorAPI.ask_other_host`."""
        return self.host.conductor.ask_other_host(self.action.id, self.host.owner, question, silence)

    def wait(self, error: Exception | None = None) -> None:
        """Release the action, for this host only, without counting an attempt. An error is reported as an event, once."""
        self.host.conductor.wait(self.action.id, self.host.owner, self._events(error) if error is not None else [])

    def succeed(self, updates: dict[str, Any] | None = None) -> None:
        """End the action with success: the server gets the states that the table of verbs names."""
        self.host.conductor.finish_action(self.action.id, self.host.owner, {**self._device_addresses(), **(updates or {})},
                                          self._events())

    def _device_addresses(self) -> dict[str, Any]:
        """The addresses of tagged devices for the guest's metadata, if they have changed."""
        instance = self.instance
        if not instance.has_device_tags:
            return {}
        try:
            found = self.host.driver.device_addresses(instance)
        except exception.NovaLiteError as error:
            LOG.warning("the addresses of its tagged devices are not known: %s", error,
                        extra={"instance_uuid": instance.uuid})
            return {}
        return {DEVICE_ADDRESSES: found} if found and found != instance.device_addresses else {}

    def fail(self, error: Exception, updates: dict[str, Any]) -> None:
        """End the action with an error, which is the fault of the server. The server ends as ``updates`` say."""
        self.host.conductor.finish_action(self.action.id, self.host.owner, updates, self._events(error),
                                          error=exception.public_of(error))

    def build_failed(self, error: Exception, reschedule: bool) -> None:
        """Another host may try, or the server ends in ERROR."""
        self.host.conductor.build_failed(self.action.id, self.host.owner, exception.public_of(error), _trace(error),
                                         self._events(error), reschedule)

    def _events(self, error: Exception | None = None) -> list[dict[str, Any]]:
        """The events of the steps, and an error that occurred outside of them. Without steps, one event for the whole work."""
        if self._steps and (error is None or error is self._told):
            return self._steps
        return [*self._steps, self._event_of(self.event, self.started, error)]

    def _event_of(self, event: str, started: datetime.datetime, error: Exception | None = None) -> dict[str, Any]:
        now: datetime.datetime = units.utcnow()
        return {"event": event, "host": self.host.name, "start_time": started.isoformat(),
                "finish_time": now.isoformat(), "result": "Error" if error else "Success",
                "traceback": _trace(error) if error else None, "details": message_of(error)[:255] if error else None}


def retry_until_available(work: Work, step: Callable[[], T]) -> T:
    """Run ``step`` again until the service that it calls is available; return its result. The step must be one that can be run
    twice.

    For steps after the last point at which a move can be undone. After each pause the lease and the server are checked: raises
    LeaseLost, UnexpectedTaskState or InstanceNotFound. A stop of the daemon ends the retries (Stopping). os-resetState does not
    end them: the guest is half-way.
    """
    def tell(error: Exception, pause: float) -> None:
        LOG.warning("'%s' tries again in %s s: %s", work.verb.name, pause, error, extra={"instance_uuid": work.instance.uuid})

    def sleep(seconds: float) -> None:
        work.host.pause(seconds)
        work.update({}, [*work.verb.working, None])

    return retry.on_error(step, exception.ServiceUnavailable, _UNAVAILABLE, work.host.clock, sleep=sleep, before_pause=tell)


def ignore_conductor_outage(ask: Callable[[], object]) -> Callable[[], None]:
    """``ask`` without ConductorAway: a long step continues while no conductor answers."""
    def check() -> None:
        try:
            ask()
        except exception.ConductorAway as error:
            LOG.warning("asking the conductor again later: %s", error)
    return check


def needs_stack(error: Exception) -> bool:
    """Whether the log gets the stack of an error. Errors of nova_lite, as of a service that is down, are clear without it."""
    return not isinstance(error, exception.NovaLiteError)


def message_of(error: Exception) -> str:
    """The text of an error for operators."""
    return str(error) or type(error).__name__


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-8000:]
