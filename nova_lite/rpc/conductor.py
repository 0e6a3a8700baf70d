"""The client side of the conductor's RPC; the server side is ``conductor/manager.py``, with the same method names."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import oslo_messaging as messaging
from oslo_log import log

from nova_lite import exception, retry, rpc
from nova_lite.context import RequestContext, admin_context
from nova_lite.rpc.batching import Batcher, Step
from nova_lite.rpc.sender import UNKNOWN, Says

LOG = log.getLogger(__name__)
TIMEOUT = 10.0
"""Seconds for one try of a call: a conductor that died with a message must not cost its caller the lease."""
AT_ONCE = retry.Schedule((0.0,) * 11)
"""Tries of a call without an answer."""
QUESTION_TIMEOUT = 70.0
"""Seconds for a question that a conductor asks another host: longer than each time limit of rpc/compute.py."""
ASK_AGAIN = retry.every(0.5, timeout=120.0)
"""A conductor lets few of its threads wait for hosts: the question is repeated while all of them wait."""
HOST_RETURNS = 60.0
"""Seconds for which a question to a host that does not answer is repeated: its daemon, or the broker, may start anew."""
ANSWER, BUSY, SILENT, LOST = "answer", "busy", "silent", "lost"
"""A conductor's answers to a question for another host: the answer of that host; too many questions are under way; the host
does not answer; the lease of the caller is lost."""
STARTING, STARTING_SECONDS = retry.Backoff(1.0, 5.0, growth=1.5), 60.0
WAITING = retry.Backoff(20.0, 20.0)
"""From one ping to the next, in the first minute of a wait for a conductor and later: thousands of daemons may wait. Each ping
has the same time for its answer, up to TIMEOUT: before the first start of a conductor there is no queue, and the broker drops
messages."""


@contextmanager
def _noticing_silence() -> Iterator[None]:
    """Raises ConductorAway where no conductor answers, or one fails: oslo.messaging raises its built-in exceptions here."""
    try:
        yield
    except exception.NovaLiteError:
        raise
    except Exception as error:
        if not isinstance(error, messaging.MessagingException):
            LOG.exception("a conductor failed")
        raise exception.ConductorAway(reason=f"{type(error).__name__}: {error}") from error


class ConductorAPI(rpc.Client):
    """Messages to whichever conductor takes them. A call whose answer is lost is made again, so a conductor may get it twice.

    A call about an action raises LeaseLost when another worker has the action. Each call that is made again raises
    ConductorAway in the end. A call that is "not repeated" raises the error of the message bus.
    """

    topic = rpc.CONDUCTOR

    def __init__(self, transport: messaging.RPCTransport, sender: Says = UNKNOWN, clock: retry.Clock = retry.SYSTEM) -> None:
        super().__init__(transport, sender)
        self._steps = Batcher(self._send_steps)
        self._may_retry, self._clock = True, clock

    def _ask(self, context: RequestContext, method: str, wait: float = TIMEOUT, silence: float | None = None,
             **arguments: Any) -> Any:
        """Raises ConductorAway when no conductor answers within ``wait`` seconds, or works on the answer within ``silence``
        seconds, asked again and again; or what the conductor raised on purpose."""
        with _noticing_silence():
            return self._ask_again(context, method, wait, silence, **arguments)

    def _ask_again(self, context: RequestContext, method: str, wait: float, silence: float | None = None,
                   **arguments: Any) -> Any:
        def tell(_error: Exception, _pause: float) -> None:
            LOG.warning("the conductor did not answer %s within %s s, asking again", method, silence or wait)

        return retry.on_error(
            lambda: self.call(context, method, timeout=wait, silence=silence, **arguments),
            lambda error: self._may_retry and isinstance(error, messaging.MessagingTimeout), AT_ONCE, self._clock,
            before_pause=tell)

    def ping(self, timeout: float) -> None:
        """Ask any conductor for an answer. Not repeated: raises a MessagingException of oslo.messaging without one."""
        self.call(admin_context(), "ping", timeout=timeout)

    def wait_until_there(self, stopping: threading.Event) -> bool:
        """Wait until some conductor answers; False when ``stopping`` was set before."""
        began = self._clock.monotonic()
        for count in itertools.count(1):
            if stopping.is_set():
                break
            asked = self._clock.monotonic()
            seconds = (STARTING if asked - began < STARTING_SECONDS else WAITING).seconds(count)
            try:
                self.ping(min(seconds, TIMEOUT))
                return True
            except messaging.MessagingException as error:
                if count == 1:
                    LOG.warning("waiting for a conductor: %s", error)
            # what fails at once is not asked again at once
            self._clock.wait(stopping, max(0.0, seconds - (self._clock.monotonic() - asked)))
        return False

    def disable_retries(self) -> None:
        """This process stops: calls are not repeated. The next process does again what was not reported."""
        self._may_retry = False

    # casts of the API -----------------------------------------------------------------------------------------------
    def schedule_and_build_instances(self, context: RequestContext, action_ids: Sequence[int]) -> None:
        """Find hosts for new servers and let them be built there."""
        self.cast(context, "schedule_and_build_instances", action_ids=list(action_ids))

    def run_action(self, context: RequestContext, action_ids: Sequence[int]) -> None:
        """Do what the conductor itself has to do, such as the delete of a server without a host."""
        self.cast(context, "run_action", action_ids=list(action_ids))

    # calls of the compute hosts -------------------------------------------------------------------------------------
    def heartbeat(self, context: RequestContext, report: dict[str, Any]) -> dict[str, Any]:
        """Report that a host lives, and which actions it works on. With ``seen`` False only the actions are reported: the host
        cannot take up more. ``actions`` of the answer wait for that host. Not repeated."""
        return self.call(context, "heartbeat", timeout=TIMEOUT, report=report)

    def host_started(self, context: RequestContext, host: str, owner: str, guests: Sequence[str]) -> dict[str, Any]:
        """A host has (re)started. Answer: ``cloud`` is the id of its cloud, ``actions`` its open actions, ``instances`` uuid,
        host and states of its servers, ``remove`` servers whose guests must be removed from it."""
        return self._ask(context, "host_started", host=host, owner=owner, guests=list(guests))

    def claim_actions(self, action_ids: Sequence[int], host: str, owner: str,
                      task_state: str | None = None) -> list[dict[str, Any] | None]:
        """For each {"action", "instance"} when it is the caller's now, None when there is nothing to do, or it could not be
        answered. ``task_state`` is the first one of a build."""
        answers = self._answers([("claim_action", {"action_id": action_id, "host": host, "owner": owner,
                                                     "task_state": task_state}) for action_id in action_ids])
        return [answer.get("result") for answer in answers]

    def instance_update(self, instance_uuid: str, updates: dict[str, Any], expected_task_states: Sequence[str | None],
                        action_id: int, owner: str, guest_begins: bool = False,
                        arguments: dict[str, Any] | None = None) -> None:
        """Change a server on behalf of an action; ``guest_begins``: and note with the action that its guest may run on its host
        from here on; ``arguments``: and these. Raises UnexpectedTaskState, InstanceNotFound or LeaseLost."""
        asked = {"instance_uuid": instance_uuid, "updates": updates, "action_id": action_id,
                 "expected_task_states": list(expected_task_states), "owner": owner}
        if arguments:
            asked["arguments"] = arguments
        self._tell([("instance_update", asked | ({"guest_begins": True} if guest_begins else {}))])

    def block_device_update(self, instance_uuid: str, device_id: str, values: dict[str, Any] | None, action_id: int,
                            owner: str) -> None:
        """Change one block device of a server (None: remove it) for an action. A device that does not exist is no error. Raises
        InstanceNotFound or LeaseLost."""
        self._tell([("block_device_update", {"instance_uuid": instance_uuid, "device_id": device_id, "values": values,
                                             "action_id": action_id, "owner": owner})])

    def nic_update(self, instance_uuid: str, port_id: str, nic: dict[str, Any] | None, action_id: int, owner: str) -> None:
        """Put one nic into the place of that with the same port, or add it (None: remove it), on behalf of an action. Raises
        InstanceNotFound or LeaseLost."""
        self._tell([("nic_update", {"instance_uuid": instance_uuid, "port_id": port_id, "nic": nic, "action_id": action_id,
                                    "owner": owner})])

    def migration_update(self, migration_id: int, values: dict[str, Any], action_id: int, owner: str) -> str | None:
        """Change the move of an action; the answer is what the user wants of the move. Raises LeaseLost."""
        return self._tell([("migration_update", {"migration_id": migration_id, "values": values, "action_id": action_id,
                                                 "owner": owner})])[0]

    def hand_over(self, action_id: int, owner: str, host: str | None, updates: dict[str, Any], arguments: dict[str, Any],
                  events: Sequence[dict[str, Any]], step: str | None = None) -> None:
        """Give an action to another host (None: to the conductor), at ``step``, and wake that host. ``updates`` go to the
        server, ``arguments`` to the action. Raises LeaseLost."""
        self._tell([("hand_over", {"action_id": action_id, "owner": owner, "host": host, "updates": updates,
                                   "arguments": arguments, "events": list(events), "step": step})])

    def finish_action(self, action_id: int, owner: str, updates: dict[str, Any], events: Sequence[dict[str, Any]],
                      error: str | None = None) -> None:
        """The action ended, well or (``error``) not; ``updates`` go to the server. Raises LeaseLost."""
        self._tell([("finish_action", {"action_id": action_id, "owner": owner, "updates": updates, "events": list(events),
                                       "error": error})])

    def build_failed(self, action_id: int, owner: str, reason: str, details: str, events: Sequence[dict[str, Any]],
                     reschedule: bool) -> None:
        """A build failed on this host; with ``reschedule`` another host may try it."""
        self._tell([("build_failed", {"action_id": action_id, "owner": owner, "reason": reason, "details": details,
                                      "events": list(events), "reschedule": reschedule})])

    def wait(self, action_id: int, owner: str, events: Sequence[dict[str, Any]]) -> None:
        """Release an action for the same host, as often as needed; of equal events each is reported once."""
        self._tell([("release_action", {"action_id": action_id, "owner": owner, "events": list(events)})])

    def release_actions(self, action_ids: Sequence[int], owner: str, timeout: float) -> None:
        """Their owner stops and has not begun with them; what it does not hold is left alone. Not repeated."""
        calls = [["release_action", {"action_id": action_id, "owner": owner}] for action_id in action_ids]
        self.call(admin_context(), "steps", timeout=timeout, calls=calls)

    def _tell(self, steps: list[Step]) -> list[Any]:
        """See ``conductor/steps.py``. Steps of other threads go in the same message, so the message has no context of a
        request: each action has its own."""
        answers = self._answers(steps)
        for answer in answers:
            if "error" in answer:
                name, message = answer["error"]
                error = getattr(exception, name)(message)
                error.kwargs.update(answer.get("fields", {}))
                raise error
        return [answer["result"] for answer in answers]

    def _send_steps(self, steps: list[Step]) -> list[dict[str, Any]]:
        return self._ask_again(admin_context(), "steps", TIMEOUT, calls=[list(step) for step in steps])

    def _answers(self, steps: list[Step]) -> list[dict[str, Any]]:
        with _noticing_silence():
            return self._steps.ask(steps)

    def power_state_changed(self, context: RequestContext, instance_uuid: str, host: str, power_state: int) -> None:
        """A guest changed its power state by itself."""
        self._ask(context, "power_state_changed", instance_uuid=instance_uuid, host=host, power_state=power_state)

    def sync_power_states(self, context: RequestContext, host: str, states: dict[str, int]) -> dict[str, Any]:
        """The power states of all guests of a host. Changes nothing. The answer: ``look`` are uuids of servers whose record
        differs; ``off`` are servers of :meth:`must_be_off` whose guests run; ``remove`` and ``unexplained`` are guests that
        must not be there (``conductor/power_states.py``); ``unknown`` are guests of no server, ``missing`` servers without a
        guest."""
        return self._ask(context, "sync_power_states", host=host, states=states)

    def not_wanted(self, context: RequestContext, host: str, instance_uuids: Sequence[str]) -> list[str]:
        """Those of the servers of which nothing may be on a host any more."""
        return self._ask(context, "not_wanted", host=host, instance_uuids=list(instance_uuids))

    def settled_here(self, context: RequestContext, host: str, instance_uuids: Sequence[str]) -> list[str]:
        """Those of the servers of a host that have moved and do not move now: the files that were set aside there are not
        needed any more."""
        return self._ask(context, "settled_here", host=host, instance_uuids=list(instance_uuids))

    def must_be_off(self, context: RequestContext, host: str, instance_uuids: Sequence[str]) -> list[str]:
        """Those of the servers whose guests must not run on a host: soft-deleted, shelved, or being evacuated from it."""
        return self._ask(context, "must_be_off", host=host, instance_uuids=list(instance_uuids))

    def network_info_changed(self, context: RequestContext, instance_uuid: str, host: str,
                             network_info: Sequence[dict[str, Any]]) -> None:
        """A host saw that the nics of one of its servers have changed; a server that moved on keeps its own."""
        self._ask(context, "network_info_changed", instance_uuid=instance_uuid, host=host, network_info=list(network_info))

    def get_instance(self, context: RequestContext, instance_uuid: str) -> dict[str, Any]:
        """One server; raises InstanceNotFound."""
        return self._ask(context, "get_instance", instance_uuid=instance_uuid)

    def share_is_used(self, context: RequestContext, host: str, share_id: str, besides: str) -> bool:
        """Whether a server of a host, other than ``besides``, has a share of files."""
        return bool(self._ask(context, "share_is_used", host=host, share_id=share_id, besides=besides))

    def ask_other_host(self, action_id: int, owner: str, question: str, silence: float = 0.0) -> Any:
        """The other host's answer to a question (``conductor/between_hosts.py``) about an action of the caller. A host that
        does not answer is asked again for ``silence`` seconds. Raises LeaseLost, HostNotAllowed, HostSilent, or the error of
        the other host."""
        began = self._clock.monotonic()

        def is_end(said: dict[str, Any]) -> bool:
            again = BUSY in said or (SILENT in said and self._clock.monotonic() - began < silence)
            return not again or not self._may_retry

        said = retry.poll(
            lambda: self._ask(admin_context(), "ask_other_host", QUESTION_TIMEOUT, silence=TIMEOUT, action_id=action_id,
                              owner=owner, question=question),
            is_end, ASK_AGAIN, self._clock)
        if BUSY in said:
            raise exception.ConductorAway(reason="too many hosts ask each other")
        if LOST in said:
            raise exception.LeaseLost(action_id=action_id, owner=owner)
        if ANSWER not in said:
            raise exception.HostSilent(question=question)
        return said[ANSWER]

    # the embedded network -------------------------------------------------------------------------------------------
    def list_networks(self, context: RequestContext, project_id: str | None) -> list[dict[str, Any]]:
        """See ``network.base.PortStore``, as the next three."""
        return self._ask(context, "list_networks", project_id=project_id)

    def allocate_ports(self, context: RequestContext, instance_uuid: str, project_id: str, host: str,
                       requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ports for a server."""
        return self._ask(context, "allocate_ports", instance_uuid=instance_uuid, project_id=project_id, host=host,
                         requests=list(requests))

    def release_ports(self, context: RequestContext, instance_uuid: str) -> None:
        """Give them back."""
        self._ask(context, "release_ports", instance_uuid=instance_uuid)

    def release_port(self, context: RequestContext, instance_uuid: str, port_id: str | None, key: str | None) -> None:
        """Give one back."""
        self._ask(context, "release_port", instance_uuid=instance_uuid, port_id=port_id, key=key)

    def move_ports(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        """Bind all ports of a server to another host."""
        self._ask(context, "move_ports", instance_uuid=instance_uuid, host=host)

    def list_server_ports(self, context: RequestContext, instance_uuid: str) -> list[dict[str, Any]]:
        """All ports of a server."""
        return self._ask(context, "list_server_ports", instance_uuid=instance_uuid)

    def list_host_ports(self, context: RequestContext, host: str) -> list[dict[str, Any]]:
        """All ports of a host."""
        return self._ask(context, "list_host_ports", host=host)

    def rules_for(self, context: RequestContext, group_ids: Sequence[str]) -> dict[str, Any]:
        """The rules of security groups."""
        return self._ask(context, "rules_for", group_ids=list(group_ids))

    # the console proxies ---------------------------------------------------------------------------------------------
    def get_console_auth_token(self, context: RequestContext, token_digest: str) -> dict[str, Any] | None:
        """``objects.ConsoleAuthToken`` of the token with this digest, as a dictionary; None for a token that is not valid."""
        return self._ask(context, "get_console_auth_token", token_digest=token_digest)

    def key_generations(self, host: str) -> list[int]:
        """The keys of a compute host with which a message to it is signed (``rpc.sender.ToHosts``)."""
        return list(self._ask(admin_context(), "key_generations", host=host))

    # the metadata service: asked once, as the guest asks again by itself --------------------------------------------
    def instance_by_address(self, context: RequestContext, address: str,
                            network_id: str | None = None) -> dict[str, Any] | None:
        """The server that has a fixed address on the embedded network. Not repeated."""
        return self.call(context, "instance_by_address", timeout=TIMEOUT, address=address, network_id=network_id)

    def instance_metadata(self, context: RequestContext, instance_uuid: str) -> dict[str, Any] | None:
        """The server, or None when there is none. Not repeated."""
        return self.call(context, "instance_metadata", timeout=TIMEOUT, instance_uuid=instance_uuid)

    def set_server_password(self, context: RequestContext, instance_uuid: str, password: str) -> None:
        """Keep a password that a guest encrypted for its user. Not repeated. Raises Conflict when there is one,
        InstanceNotFound."""
        self.call(context, "set_server_password", timeout=TIMEOUT, instance_uuid=instance_uuid, password=password)
