"""``nova-lite-manage host drain``: moves the servers of one compute host to others, as an admin would by the API.

It calls the compute API in-process. So the checks, the actions and the messages are those of the REST API, and it needs no user
of the Identity service. It begins durable actions, which go on when this command ends.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from nova_lite import exception, operations
from nova_lite.compute.api import ComputeAPI
from nova_lite.context import RequestContext
from nova_lite.db import actions, claims, clock, instances, moves, server_states, services
from nova_lite.db.core import Database
from nova_lite.objects import action as action_objects
from nova_lite.objects import migration as objects
from nova_lite.objects import states
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance

WHO = "nova-lite-manage"        # the user of these actions: a later run knows by it which moves it may confirm
REASON = "emptied by nova-lite-manage host drain"
LIVE, COLD = "live", "cold"
_PAUSES = (0.1, 0.2, 0.5)       # seconds between two reads; the last one is repeated
RETRY_SECONDS = 60.0            # how long a live migration that is refused for now is asked for


class _Stays(Exception):
    """A server cannot go, and why."""


class _Stopped(Exception):
    """The command was stopped: servers are not waited for any more."""


class Drain:
    """Empties ``host``. ``parallel``: how many servers at once. ``live_only``: no running guest is shut down for its move.
    ``timeout``: the longest wait in seconds for one step of a server. ``tell`` gets the lines of the report."""

    def __init__(self, db: Database, compute: ComputeAPI, host: str, parallel: int = 2, live_only: bool = False,
                 timeout: float = 3600.0, tell: Callable[[str], None] = print) -> None:
        self.db, self.compute, self.host = db, compute, host
        self.parallel, self.live_only, self.timeout = parallel, live_only, timeout
        self.stopping = False
        self._tell, self._lock = tell, threading.Lock()
        self._total = self._ended = 0
        self._under_way: dict[str, str] = {}

    def stop(self) -> None:
        """Begin nothing more, and wait for nothing. It may be called by a signal handler."""
        self.stopping = True

    def run(self) -> bool:
        """Disable the host, move what can be moved; True when nothing is left. Raises HostBinaryNotFound."""
        is_up = self.db.write(self._disable)
        self._tell(f"{self.host} is disabled, so nothing new comes. {len(self._left())} server(s) to move, {self.parallel} at "
                   "once.")
        if is_up:
            self._move_all()
        else:
            self._tell(f"{self.host} does not report, so nothing can leave it: start its nova-lite-compute, or evacuate its "
                       "servers if it is off.")
        left = len(self._left())
        if self.stopping:
            self._tell("Stopped: no move was begun after the signal.")
            for uuid, what in sorted(self._under_way.items()):
                self._tell(f"{uuid} goes on by itself: {what}")
        self._tell(f"{self.host} is not empty: {left} left. Run this again to go on." if left else
                   f"{self.host} is empty, and stays disabled.")
        return not left

    def _disable(self, conn: sa.Connection) -> bool:
        """As PUT /os-services does; a reason that is there already stays. Whether the host reports."""
        service = services.get_by_host(conn, self.host, services.COMPUTE)
        if not service["disabled"]:
            services.update(conn, service["id"], {"disabled": True, "disabled_reason": REASON})
        return services.is_up(service, self.compute.conf.compute.service_down_time, clock.read(conn))

    def _left(self) -> list[str]:
        """The servers that are here or hold room here: also those that are moving, and those whose files are here until their
        move is confirmed."""
        with self.db.read() as conn:
            return sorted({*server_states.on_host(conn, self.host),
                           *(move.instance_uuid for move in moves.open_at(conn, self.host)),
                           *claims.servers_with_room(conn, self.host)})

    def _move_all(self) -> None:
        """In rounds: servers that were on their way to the host when it was disabled may arrive later."""
        seen: set[str] = set()
        while not self.stopping:
            found = [uuid for uuid in self._left() if uuid not in seen]
            if not found:
                return
            seen.update(found)
            self._total += len(found)
            with ThreadPoolExecutor(self.parallel) as pool:
                list(pool.map(self._empty, found))

    # one server -----------------------------------------------------------------------------------------------------------
    def _empty(self, uuid: str) -> None:
        """Move one server, and report the result."""
        if self.stopping:
            return
        began, name = time.monotonic(), ""
        try:
            server = self._settled(uuid)
            name = server.display_name
            said = f"{self._move(server)} ({time.monotonic() - began:.0f} s)"
        except _Stopped:
            return
        except exception.InstanceNotFound:
            said = "is deleted"
        except (_Stays, exception.NovaLiteError) as error:
            said = f"stays: {' '.join(str(error).split())}"
        except BaseException:
            self.stopping = True        # the database is away, for example: begin nothing more
            raise
        with self._lock:
            self._ended += 1
            self._under_way.pop(uuid, None)
            self._tell(f"{self._ended}/{self._total} {uuid} {name}: {said}")

    def _move(self, server: Instance) -> str:
        """Returns what was done. Raises _Stays, and the errors of the compute API."""
        how = ""
        if server.host == self.host:
            how = self._send_away(server)
            server = self._settled(server.uuid)
        server = self._confirmed(server)
        if server.host == self.host:
            raise _Stays("its move has ended, but it is here")
        return f"moved to {server.host}, {how}" if how else f"is at {server.host or 'no host'}"

    def _send_away(self, server: Instance) -> str:
        """Live where the guest runs and can move, else cold. A temporary refusal is no reason to shut a guest down."""
        pause = self._pauses(server.uuid, min(RETRY_SECONDS, self.timeout))
        while server.vm_state in operations.VERBS["live_migrate"].vm_states:
            try:
                self._carry_out(server, LIVE)
            except _CANNOT as refusal:
                return self._send_cold(server, refusal)
            except (_NotNow, exception.Conflict, exception.ServiceUnavailable) as error:
                pause(f"live: {error}")
                server = self._settled(server.uuid)
                if server.host != self.host:
                    return "but not by this command"
            else:
                return LIVE
        self._carry_out(server, COLD)
        return COLD

    def _send_cold(self, server: Instance, refusal: Exception) -> str:
        """Where it cannot go live."""
        if server.vm_state not in operations.VERBS["migrate"].vm_states:
            raise refusal
        if self.live_only:
            raise _Stays(f"live: {refusal}") from refusal
        try:
            self._carry_out(server, COLD)
        except (_Stays, exception.NovaLiteError) as error:
            raise _Stays(f"live: {refusal}; cold: {error}") from error
        return f"{COLD}, since live: {refusal}"

    def _carry_out(self, server: Instance, how: str) -> None:
        """Begin a move, and wait for its end. Raises _Refused or _NotNow when it has failed before it touched the guest, else
        _Stays."""
        if self.stopping:
            raise _Stopped
        context = self._context(server)
        if how == LIVE:
            self.compute.live_migrate(context, server, None, None, None, False, wait=False)
        else:
            self.compute.migrate(context, server)
        self._wait_for(server.uuid, context, "live migration" if how == LIVE else "cold migration, which the next run confirms")

    def _confirmed(self, server: Instance) -> Instance:
        """Close the way back of a cold move that this command has begun, now or earlier."""
        with self.db.read() as conn:
            move = moves.find(conn, server.uuid, [objects.FINISHED])
        if move is None or move.source_compute != self.host:
            return server
        if not self._is_ours(server):
            raise _Stays(f"it went to {server.host}, but its files are here until a user confirms or reverts that "
                         f"{move.migration_type} (openstack server resize confirm)")
        context = self._context(server)
        try:
            self.compute.confirm_resize(context, server)
        except (exception.Conflict, exception.Invalid):
            if self._settled(server.uuid).vm_state == states.RESIZED:
                raise
        else:
            self._wait_for(server.uuid, context, "its move is being confirmed")
        return self._settled(server.uuid)

    def _is_ours(self, server: Instance) -> bool:
        """Whether this command has begun the last cold move of a server."""
        with self.db.read() as conn:
            found = operations.known(actions.list_for_instance(conn, server.uuid))
        cold = [action for action, row in found if row.is_cold_move]
        return bool(cold) and (cold[0].verb, cold[0].user_id) == ("migrate", WHO)

    def _context(self, server: Instance) -> RequestContext:
        """An admin, with a request id of its own."""
        return RequestContext(user_id=WHO, project_id=server.project_id, is_admin=True, roles=["admin"], overwrite=False)

    # waiting --------------------------------------------------------------------------------------------------------------
    def _settled(self, uuid: str) -> Instance:
        """The server, when nothing is being done with it. Raises InstanceNotFound when it is deleted meanwhile."""
        pause = self._pauses(uuid)
        while True:
            with self.db.read() as conn:
                server, found = instances.get(conn, uuid), actions.open_of_instances(conn, [uuid]).get(uuid, [])
            follow = [action for action, row in operations.known(found) if row.follows_guest]
            busy = [action for action in found if action not in follow]
            if not busy:
                self._under_way.pop(uuid, None)
                return server
            pause(busy[0].verb)

    def _wait_for(self, uuid: str, context: RequestContext, what: str) -> None:
        """Until the action of a request has ended. Raises _Refused, _NotNow or _Stays when it has failed."""
        pause = self._pauses(uuid)
        while True:
            with self.db.read() as conn:
                action = actions.get_by_request_id(conn, uuid, context.request_id)
            if action.state not in actions.OPEN:
                self._under_way.pop(uuid, None)
            if action.state == action_objects.DONE:
                return
            if action.state == action_objects.ERROR:
                if action.stage != action_objects.CONDUCTOR:
                    raise _Stays(self._reason(action))
                # without a code this is no refusal: a scheduler or a host did not answer
                code = action.arguments.get("error_code", exception.ServiceUnavailable.code)
                passing = code in (exception.Conflict.code, exception.ServiceUnavailable.code)
                raise (_NotNow if passing else _Refused)(self._reason(action))
            pause(what)

    def _pauses(self, uuid: str, seconds: float | None = None) -> Callable[[str], None]:
        """Called between two reads of a server: reports the wait. Raises _Stopped, or _Stays after the time that the operator
        has given, or ``seconds``."""
        limit = self.timeout if seconds is None else seconds
        deadline, left = time.monotonic() + limit, list(_PAUSES)

        def pause(what: str) -> None:
            self._under_way[uuid] = what
            if self.stopping:
                raise _Stopped
            if time.monotonic() > deadline:
                raise _Stays(f"not done after {limit:.0f} s, and not waited for any longer: {what}")
            time.sleep(left.pop(0) if len(left) > 1 else left[0])
        return pause

    def _reason(self, action: Action) -> str:
        """What an action has failed of."""
        with self.db.read() as conn:
            said = [e["details"] for e in actions.events_of(conn, action.id) if e["details"]]
            server = instances.get(conn, action.instance_uuid)
        fault = (server.fault or {}).get("message")
        return str(action.arguments.get("error") or (said[0] if said else fault) or f"{action.action} failed")


class _NotNow(_Stays):
    """A conductor could not begin it now: a service is away, or the server is about to change. The guest was not touched."""


class _Refused(_Stays):
    """A conductor has found no host for it: the guest was not touched."""


# a running guest with one of these cannot go live, now or later
_CANNOT = (_Refused, exception.Invalid, exception.NoValidHost, exception.OperationNotSupportedForVTPM,
           exception.OperationNotSupportedForEncryptedDisks, exception.ForbiddenWithShare)
