"""The compute daemon of one host: takes up actions, carries them out on the hypervisor, reports."""
from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, operations, retry
from nova_lite.compute import external_events, host_name, image_cache, recovery, verbs
from nova_lite.compute.consoles import Consoles
from nova_lite.compute.external_events import ExternalEvents
from nova_lite.compute.leases import Leases
from nova_lite.compute.migration_source import MigrationSource
from nova_lite.compute.network_info_refresh import NetworkInfoRefresh
from nova_lite.compute.nic_comparison import NicComparison
from nova_lite.compute.queries import Queries
from nova_lite.compute.rpc_permissions import RULES
from nova_lite.compute.server_queues import ServerQueues
from nova_lite.compute.work import Host
from nova_lite.context import RequestContext, admin_context
from nova_lite.image import base as image_base
from nova_lite.network import base as network_base
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance
from nova_lite.objects.migration import Migration
from nova_lite.objects.network import PortState
from nova_lite.rpc import sender
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.rpc.port_store import RpcPortStore
from nova_lite.runtime.rpc_callers import WINDOW, Callers, ControlPlane
from nova_lite.share import base as share_base
from nova_lite.virt import driver as virt_driver
from nova_lite.virt import vendor_data
from nova_lite.volume import base as volume_base

LOG = log.getLogger(__name__)
RECOVERY_PAUSES = retry.Backoff(2.0, 10.0)
# a stop waits no longer for a recovery, which may ask a conductor that is gone, and which the next start runs again
JOIN_SECONDS = 0.2
_GIVE_BACK_SECONDS = 5.0
TIDY_INTERVAL = 1800.0
PLUG_INTERVAL = 5.0
RULES_INTERVAL = 60.0       # a message that security groups have changed may be lost
_RULES = "security rules"   # the name of its queue
_FULL_REPORT_EVERY = 30      # heartbeats: a conductor that lost the inventory gets it again
# A host that was silent may have been given up: its servers were deleted or built elsewhere, until its first report was
# written down. So it looks at all its guests after its first reports.
_LOOKS = 2


class _Claimed(NamedTuple):
    """An action that is ours, with its server and, where it is a move, with that; ``asked``: when, by time.monotonic()."""

    action: Action
    instance: Instance
    migration: Migration | None
    asked: float

    @classmethod
    def read(cls, answer: dict[str, Any], asked: float) -> _Claimed:
        """From the answer of the conductor. Raises KeyError and similar errors for an answer of another version."""
        action, moving = Action.from_primitive(answer["action"]), answer.get("migration")
        operations.of(action)       # raises KeyError
        return cls(action, Instance.from_primitive(answer["instance"]), Migration.from_primitive(moving) if moving else None,
                   asked)


class ComputeManager:
    """The server side of ``rpc/compute.py`` for one host. It has no access to the database."""

    def __init__(self, conf: cfg.ConfigOpts, transport: messaging.RPCTransport, host: str,
                 clock: retry.Clock = retry.SYSTEM) -> None:
        self.conf = conf
        self.conductor = ConductorAPI(transport, sender.of_host(conf, host), clock)
        self.leases = Leases(host)
        network = network_base.load(conf, RpcPortStore(self.conductor))
        self.host = Host(host, self.leases.owner, virt_driver.load(conf, host), image_base.load(conf), network,
                         volume_base.load(conf), self.conductor, ExternalEvents(conf, network), conf, share_base.load(conf),
                         vendor_data=vendor_data.load(conf), clock=clock)
        self._stopping = self.host.stopping
        self._queues = ServerQueues()
        self._nics = NicComparison(self.host, self._look_at_nics, self._later)
        self.callers = Callers(conf, RULES, ControlPlane(conf, host))
        self.endpoints: list[object] = self.callers.before([
            self, Queries(self.host, self._nics.suspect), Consoles(conf, self.host), MigrationSource(self.host, self._soon)])
        self._network_refresh = NetworkInfoRefresh(self.host)
        # builds that wait for a free place hold up nothing else, and neither do guests that shut down slowly, or disks that are
        # copied for hours; what another host waits for waits for no other host
        self._builds = ThreadPoolExecutor(conf.compute.max_concurrent_builds, thread_name_prefix=f"build-{host}")
        self._pool = ThreadPoolExecutor(32, thread_name_prefix=f"compute-{host}")
        self._lasting = ThreadPoolExecutor(32, thread_name_prefix=f"lasting-{host}")
        self._copies = ThreadPoolExecutor(256, thread_name_prefix=f"copy-{host}")       # most of which are queued
        self._sources = ThreadPoolExecutor(32, thread_name_prefix=f"source-{host}")
        self._claims = ThreadPoolExecutor(2, thread_name_prefix=f"claim-{host}")
        # where there is no network, a build has nothing to do before it spawns
        self._first_task_state = states.SPAWNING if conf.network.driver == "null" else states.NETWORKING
        self._recovery = threading.Thread(target=self._recover, name=f"recovery-{host}", daemon=True)
        self._ready, self._rules_wait = threading.Event(), threading.Event()
        self.reported = threading.Event()       # the scheduler may choose this host
        # leases are renewed by heartbeats: two may be lost before a lease is
        self._interval = min(conf.compute.report_interval, conf.conductor.lease_seconds / 3)
        self._reports, self._looks, self._last_report = 0, _LOOKS, time.monotonic()
        self._last_inventory: dict[str, Any] | None = None
        self._findings = recovery.Findings(self.host)

    # the life of the process ----------------------------------------------------------------------------------------
    def start(self) -> None:
        """Connect to the hypervisor (raises when it or the network cannot be used, ConfigError for a host that has got another
        name), then recover in the background."""
        self.host.network.check_host()
        self.host.driver.init_host(self._power_changed)
        host_name.check(self.conf, self.host.name, self.host.driver.power_states())
        self._recovery.start()

    def stop(self) -> None:
        """Wait for the work that runs, and renew its leases until then. The guests run on."""
        self._stopping.set()
        self.conductor.disable_retries()
        for pool in (self._claims, self._builds, self._lasting, self._copies, self._sources, self._pool):
            pool.shutdown(wait=True, cancel_futures=True)
        self._give_back(self.leases.in_flight())        # actions that waited for a thread
        self._recovery.join(JOIN_SECONDS)
        self.host.driver.stop_host()

    def _give_back(self, action_ids: list[int]) -> None:
        """Release actions that were claimed and not begun. This counts as no attempt, unless no conductor answers."""
        def tell() -> None:
            try:
                self.conductor.release_actions(action_ids, self.host.owner, _GIVE_BACK_SECONDS)
            except messaging.MessagingException as error:
                LOG.warning("actions %s were not released: %s", action_ids, error)

        if action_ids:      # in a thread: the call may wait for the broker, and the stop must not
            teller = threading.Thread(target=tell, name="give-back", daemon=True)
            teller.start()
            teller.join(_GIVE_BACK_SECONDS)
            self.leases.drop(action_ids)

    def periodics(self) -> list[tuple[float, Callable[[], None]]]:
        """(seconds, function) of the periodic work."""
        loops: list[tuple[float, Callable[[], None]]] = [(self._interval, self._heartbeat),
                                                         (TIDY_INTERVAL, self.host.driver.tidy),
                                                         (RULES_INTERVAL, self._look_at_rules),
                                                         (PLUG_INTERVAL, self._nics.plug_again),
                                                         (WINDOW, self.callers.forget)]
        if self.conf.compute.sync_power_state_interval > 0:
            loops.append((self.conf.compute.sync_power_state_interval, self._sync_power_states))
        if self.conf.compute.heal_instance_info_cache_interval > 0:
            loops.append((self.conf.compute.heal_instance_info_cache_interval, self._nics.run))
        return loops

    def _recover(self) -> None:
        for count in itertools.count(1):
            if not self.conductor.wait_until_there(self._stopping):
                return
            pause = RECOVERY_PAUSES.seconds(count)
            try:
                found = recovery.run(self.conf, self.host)
                self.conductor.cloud = found.cloud
                for server in found.unexpected:
                    self._remove(server)
                for uuid in found.went_down:      # not more at once than are built
                    self._queues.submit(uuid, self._builds, partial(recovery.resume, self.host, uuid))
                self._ready.set()
                self._take_up(found.waiting)
                self._sync_power_states()
                return
            except (exception.ConductorAway, messaging.MessagingException) as error:
                LOG.warning("recovery failed; again in %.1f s: %s", pause, error)
            except Exception as error:
                if self._stopping.is_set():
                    LOG.debug("recovery was interrupted by the stop: %s", error)
                else:
                    LOG.exception("recovery failed; again in %.1f s", pause)
            self._stopping.wait(pause)

    # reports --------------------------------------------------------------------------------------------------------
    def _heartbeat(self) -> None:
        if not self._reports and not self.conductor.wait_until_there(self._stopping):
            return
        compute = self.conf.compute
        report: dict[str, Any] = {"host": self.host.name, "owner": self.host.owner, "actions": self.leases.in_flight()}
        try:
            inventory = self.host.driver.inventory().to_primitive()
        except exception.VirtDriverError:       # work under way may go on without the hypervisor, such as an upload
            self.conductor.heartbeat(admin_context(), {**report, "seen": False})
            raise
        if inventory != self._last_inventory or self._reports % _FULL_REPORT_EVERY == 0:
            # the uptime always differs: it is sent along, but is no reason for a full report
            report |= {"inventory": {**inventory, "host_ip": self.conf.my_ip, "uptime": self.host.driver.uptime()},
                       "ratios": {"cpu": compute.cpu_allocation_ratio, "ram": compute.ram_allocation_ratio,
                                  "disk": compute.disk_allocation_ratio},
                       "reserved": {"vcpus": compute.reserved_host_cpus, "memory_mb": compute.reserved_host_memory_mb,
                                    "local_gb": compute.reserved_host_disk_gb}}
        answer = self.conductor.heartbeat(admin_context(), report)
        now = time.monotonic()
        if now - self._last_report > 2 * self._interval:
            self._looks = _LOOKS
        self._last_report, self._last_inventory, self._reports = now, inventory, self._reports + 1
        self.reported.set()
        if self._ready.is_set():
            self._take_up(answer["actions"])
            if self._looks:
                self._looks -= 1
                self._sync_power_states()

    def _sync_power_states(self) -> None:
        if not self._ready.is_set():
            return
        answer = self.conductor.sync_power_states(admin_context(), self.host.name, self.host.driver.power_states())
        for uuid in answer["look"]:
            self._power_changed(uuid, states.NOSTATE)
        for uuid in answer.get("off", ()):
            self._turn_off(uuid)
        for values in answer["remove"]:
            self._remove(Instance.from_primitive(values))
        self._findings.tell(answer)
        for uuid in self.host.driver.left_behind():
            self._later(uuid, partial(recovery.drop_left_behind, self.host, uuid))

    def _later(self, instance_uuid: str, function: Callable[[bool], None]) -> None:
        """Put a function into the server's queue."""
        if not self._stopping.is_set():
            self._queues.submit(instance_uuid, self._pool, function)

    def _soon(self, instance_uuid: str, function: Callable[[bool], None]) -> None:
        """Put a function for which another host waits into the server's queue."""
        if not self._stopping.is_set():
            self._queues.submit(instance_uuid, self._sources, function)

    def _remove(self, server: Instance) -> None:
        """Remove a guest, in the server's queue, if it is still unexpected then."""
        self._later(server.uuid, lambda _waited: recovery.remove(self.host, server))

    def _turn_off(self, instance_uuid: str) -> None:
        """Turn a guest off, in the server's queue, if it still must be off then."""
        self._later(instance_uuid, lambda _waited: recovery.turn_off(self.host, instance_uuid))

    def _power_changed(self, instance_uuid: str, power_state: int) -> None:
        """Called by the driver when the power state of a guest changes by itself. It is read again when no operation works on
        the server."""
        if not self._stopping.is_set():
            self._queues.submit(instance_uuid, self._pool, lambda _waited: self._tell_power_state(instance_uuid))

    def _tell_power_state(self, instance_uuid: str) -> None:
        try:
            state = self.host.driver.power_states().get(instance_uuid, states.NOSTATE)
            self.conductor.power_state_changed(admin_context(), instance_uuid, self.host.name, state)
        except exception.Interrupted as error:
            LOG.warning("the guest's power state was not reported: %s", error, extra={"instance_uuid": instance_uuid})
        except Exception:
            LOG.exception("the guest's power state was not reported", extra={"instance_uuid": instance_uuid})

    # actions --------------------------------------------------------------------------------------------------------
    def _take_up(self, action_ids: Iterable[int]) -> None:
        """Claim actions and work on them. Actions that are already in flight are skipped. Returns at once."""
        mine = self.leases.take(action_ids) if not self._stopping.is_set() else []
        if mine:
            try:
                self._claims.submit(self._claim, mine)
            except RuntimeError:        # shut down meanwhile: the next daemon claims them
                self.leases.drop(mine)

    def _claim(self, action_ids: list[int]) -> None:
        """Claim actions, and put each into the queue of its server."""
        left = set(action_ids)
        try:
            for claimed in self._claimed(action_ids):
                if claimed is not None:
                    self._queue(claimed)
                    left.discard(claimed.action.id)
        except exception.Interrupted as error:
            LOG.warning("actions %s were not claimed; they will be claimed again: %s", sorted(left), error)
        except Exception:
            LOG.exception("actions %s were not claimed; they will be claimed again", sorted(left))
        finally:
            self.leases.drop(left)

    def _claimed(self, action_ids: list[int]) -> list[_Claimed | None]:
        asked = time.monotonic()
        answers = self.conductor.claim_actions(action_ids, self.host.name, self.host.owner, self._first_task_state)
        return [self._read(number, answer, asked) for number, answer in zip(action_ids, answers, strict=True)]

    @staticmethod
    def _read(action_id: int, answer: dict[str, Any] | None, asked: float) -> _Claimed | None:
        """None for an answer that this version does not understand: the lease of that action runs out, and the other actions go
        on."""
        try:
            return _Claimed.read(answer, asked) if answer is not None else None
        except Exception:
            LOG.exception("action %s is not understood", action_id)
            return None

    def _queue(self, claimed: _Claimed) -> None:
        action, uuid = claimed.action, claimed.instance.uuid
        verb = operations.of(action)
        step = operations.named(verb.steps, action.step)
        pool = self._copies if step is not None and step.copies_memory else self._pool_of(verb)
        if verb.is_delete:
            self.host.events.interrupt(uuid)
        self._queues.submit(uuid, pool, lambda waited: self._turn(claimed, waited))

    def _pool_of(self, verb: operations.Verb) -> Executor:
        return {operations.Runs.SHORTLY: self._pool, operations.Runs.LONG: self._lasting,
                operations.Runs.BUILD: self._builds}[verb.runs]

    def _turn(self, claimed: _Claimed, waited: bool) -> None:
        action = claimed.action
        if self._stopping.is_set():
            return      # see _give_back
        try:
            # the work before this one may have changed the server; and while the action waited for a thread it may have been
            # ended, as when the server is evacuated from this host
            is_old = time.monotonic() - claimed.asked >= self.conf.conductor.lease_seconds / 2
            now = self._claimed([action.id])[0] if waited or is_old else claimed
            if now is not None:
                verbs.carry_out(self.host, *now)
        except exception.Interrupted as error:
            LOG.warning("action %s is left to its next worker: %s", action.id, error,
                        extra={"instance_uuid": claimed.instance.uuid})
        except Exception:
            LOG.exception("action %s was not finished; it will be claimed again", action.id,
                          extra={"instance_uuid": claimed.instance.uuid})
        finally:
            self._take_up(self.leases.drop([action.id]))

    # RPC ------------------------------------------------------------------------------------------------------------
    def wake(self, context: RequestContext, action_ids: Sequence[int]) -> None:
        """Claim actions that wait for this host. A host that is not ready yet finds them at the end of its start, or in the
        answer to its next report."""
        if self._ready.is_set():
            self._take_up(action_ids)

    def look_for_left_behind(self, context: RequestContext, instance_uuids: list[str]) -> None:
        """Remove what this host may have of servers that were deleted or evacuated."""
        for uuid in instance_uuids:
            self._later(uuid, partial(recovery.drop_left_behind, self.host, uuid))

    def external_instance_event(self, context: RequestContext, events: list[dict[str, Any]]) -> None:
        """Events of other services. A waiting build gets its event at once, all others are queued."""
        for event in events:
            uuid, name, tag = event["server_uuid"], event["name"], event.get("tag")
            LOG.info("event %s %s: %s", name, event["status"], tag or "", extra={"instance_uuid": uuid})
            self.host.events.tell(uuid, name, event["status"], tag)
            if name in (external_events.CHANGED, external_events.DELETED):
                self._look_at_nics(uuid, name, tag)

    def _look_at_nics(self, uuid: str, event: str, port_id: str | None, ports: Mapping[str, PortState] | None = None) -> None:
        if self._network_refresh.request(uuid, event, port_id, ports):
            self._queues.submit(uuid, self._pool, partial(self._network_refresh.run, uuid))

    def refresh_security_rules(self, context: RequestContext) -> None:
        """The security groups of this host's guests have changed. Messages that are queued together are one."""
        self._look_at_rules()

    def _look_at_rules(self) -> None:
        if not self._rules_wait.is_set():
            self._rules_wait.set()
            self._later(_RULES, self._refresh_rules)

    def _refresh_rules(self, _waited: bool) -> None:
        self._rules_wait.clear()
        try:
            self.host.network.refresh_filters()
        except exception.Interrupted as error:
            LOG.warning("the rules of security groups were not brought up to date; again in %s s: %s", RULES_INTERVAL, error)
        except Exception:
            LOG.exception("the rules of security groups were not brought up to date; again in %s s", RULES_INTERVAL)

    def cache_images(self, context: RequestContext, image_ids: list[str]) -> None:
        """See :meth:`nova_lite.rpc.compute.ComputeAPI.cache_images`."""
        for image_id in image_ids:
            self._queues.submit(image_cache.QUEUE, self._lasting, partial(image_cache.fetch, self.host, context, image_id))
