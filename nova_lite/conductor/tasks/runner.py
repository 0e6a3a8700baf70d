"""The tasks of a conductor: verbs that need the scheduler. Builds, which arrive in large numbers, have a task of their own.

A task is a function of ``TASKS``. Its arguments are an action that this conductor owns, and the server, both as in the
database. A task can be run twice. It writes what it finds out, and hands the action over (:meth:`Tools.hand_over`). An
exception ends the action; the server keeps its state, with the error as its fault.
"""
from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception
from nova_lite.conductor import completion
from nova_lite.conductor.tasks import cold_move, evacuate, live_migrate, unshelve
from nova_lite.conductor.tasks.base import HostsMayReport, Tools
from nova_lite.db import actions, claims, instances
from nova_lite.objects.action import Action
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
THREADS = 16        # tasks wait for the scheduler and for hosts


Task = Callable[[Tools, Action, Instance], None]
# verb of operations.VERBS -> its task; tasks/build.py places new servers
TASKS: dict[str, Task] = {"resize": cold_move.begin, "migrate": cold_move.begin, "live_migrate": live_migrate.run,
                          "unshelve": unshelve.unshelve, "evacuate": evacuate.run}


class Tasks:
    """Runs tasks in threads. While one runs, the conductor's heartbeat renews its lease."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="task")

    def start(self, action: Action, instance: Instance) -> None:
        """Begin with an action that was claimed; returns at once."""
        self._tools.leases.take([action.id])
        self._threads.submit(self._run, action, instance)

    def stop(self) -> None:
        """Wait for the tasks that run. Other conductors claim the rest."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, action: Action, instance: Instance) -> None:
        extra = {"instance_uuid": instance.uuid}
        try:
            TASKS[action.verb](self._tools, action, instance)
        except exception.LeaseLost as error:
            LOG.warning("%s", error, extra=extra)
            self._write(action, _give_back)
        except HostsMayReport as error:
            LOG.info("'%s' waits for hosts to report after an outage: %s", action.verb, error, extra=extra)
            self._write(action, self._release)
        except messaging.MessagingException as error:
            LOG.warning("'%s' waits for the next sweep: %s", action.verb, error, extra=extra)
            self._write(action, _give_back)
        except exception.NovaLiteError as error:
            LOG.info("'%s' failed: %s", action.verb, error, extra=extra)
            self._write(action, self._end, error.public)
        except Exception as error:
            LOG.exception("'%s' failed", action.verb, extra=extra)
            self._write(action, self._end, exception.public_of(error))
        finally:
            self._tools.leases.drop([action.id])

    def _write(self, action: Action, transaction: Callable[..., None], *arguments: object) -> None:
        try:
            self._tools.db.write(transaction, action, *arguments)
        except Exception:
            LOG.exception("the end of action %s was not written; the sweeper will try it again", action.id)

    def _end(self, conn: sa.Connection, action: Action, message: str) -> None:
        held = actions.held(conn, [action.id], self._tools.leases.owner).get(action.id)
        if held is not None:
            completion.fail(conn, held, message)
        else:
            _give_back(conn, action)

    def _release(self, conn: sa.Connection, action: Action) -> None:
        mine = actions.held(conn, [action.id], self._tools.leases.owner)
        actions.release(conn, list(mine), 0, died=False)


def _give_back(conn: sa.Connection, action: Action) -> None:
    """Release the room that the scheduler claimed for a server that was deleted meanwhile. A server that exists is in the hands
    of another conductor."""
    if not instances.get_many(conn, [action.instance_uuid], tags=False):
        claims.release(conn, action.instance_uuid)
