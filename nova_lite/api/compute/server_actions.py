"""POST /servers/{server_id}/action: power, pause, suspend, lock, console output, reset and forced delete."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nova_lite.api.compute.schemas import server_actions as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api import ComputeAPI
from nova_lite.compute.api.operations import is_expected_locked_by
from nova_lite.objects import states
from nova_lite.objects.instance import Instance

PATH = "/servers/{server_id}/action"
_UNLOCK = "os_compute_api:os-lock-server:unlock"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")


def _simple(name: str, policy: str, begin: Callable[[ComputeAPI, Any, str], None]) -> Route:
    """An action without arguments that ``begin`` begins."""
    def handler(req: Request, instance: Instance) -> None:
        begin(req.services.compute, req.context, instance.uuid)

    handler.__name__ = name.replace("-", "_")
    handler.__doc__ = f"Begin {name}."
    return Route("POST", PATH, handler, policy, action=name, body=schema.no_argument(name), status=202)


def reboot(req: Request, instance: Instance) -> None:
    """Reboot, soft or hard."""
    req.services.compute.reboot(req.context, instance.uuid, req.argument["type"].upper() == "HARD")


def lock(req: Request, instance: Instance) -> None:
    """Refuse operations to everybody but admins."""
    reason = (req.argument or {}).get("locked_reason") if req.since("2.73") else None
    req.services.compute.lock(req.context, instance, reason)


def unlock(req: Request, instance: Instance) -> None:
    """Allow operations again; the lock of an admin needs the right to override it."""
    if not is_expected_locked_by(req.context, instance):
        req.can(f"{_UNLOCK}:unlock_override", instance)
    req.services.compute.unlock(req.context, instance)


def console_output(req: Request, instance: Instance) -> dict[str, Any]:
    """The end of the console log, without control characters."""
    given = req.argument.get("length")
    length = None if given is None or int(given) < 0 else int(given)
    output = req.services.compute.get_console_output(req.context, instance, length)
    return {"output": _CONTROL.sub("", output)}


def reset_state(req: Request, instance: Instance) -> None:
    """Declare a server active or in error."""
    req.services.compute.reset_state(req.context, instance, req.argument["state"])


def change_password(req: Request, instance: Instance) -> None:
    """Set the password of the administrator inside the guest."""
    req.services.compute.change_password(req.context, instance, req.argument["adminPass"])


def inject_network_info(req: Request, instance: Instance) -> None:
    """Nothing: no guest of ours keeps what was injected, it asks DHCP, metadata or its config drive. Nova's drivers of today
    do nothing either."""
    states.check(states.INJECT_NETWORK_INFO, instance, may_override_lock=bool(req.context.is_admin))


ROUTES = [
    _simple("os-start", "os_compute_api:servers:start", ComputeAPI.start),
    _simple("os-stop", "os_compute_api:servers:stop", ComputeAPI.stop),
    _simple("pause", "os_compute_api:os-pause-server:pause", ComputeAPI.pause),
    _simple("unpause", "os_compute_api:os-pause-server:unpause", ComputeAPI.unpause),
    _simple("suspend", "os_compute_api:os-suspend-server:suspend", ComputeAPI.suspend),
    _simple("resume", "os_compute_api:os-suspend-server:resume", ComputeAPI.resume),
    _simple("forceDelete", "os_compute_api:os-deferred-delete:force", ComputeAPI.force_delete),
    Route("POST", PATH, reboot, "os_compute_api:servers:reboot", action="reboot", body=schema.REBOOT, status=202),
    Route("POST", PATH, lock, "os_compute_api:os-lock-server:lock", action="lock", body=schema.LOCK, status=202),
    Route("POST", PATH, unlock, _UNLOCK, action="unlock", body=schema.no_argument("unlock"), status=202),
    Route("POST", PATH, console_output, "os_compute_api:os-console-output", action="os-getConsoleOutput",
          body=schema.CONSOLE_OUTPUT, response=schema.CONSOLE_OUTPUT_ANSWER),
    Route("POST", PATH, change_password, "os_compute_api:os-admin-password", action="changePassword",
          body=schema.CHANGE_PASSWORD, status=202),
    Route("POST", PATH, inject_network_info, "os_compute_api:os-admin-actions:inject_network_info", action="injectNetworkInfo",
          body=schema.no_argument("injectNetworkInfo"), status=202),
    replace(_simple("trigger_crash_dump", "os_compute_api:servers:trigger_crash_dump", ComputeAPI.trigger_crash_dump),
            first="2.17", body=schema.TRIGGER_CRASH_DUMP),
    Route("POST", PATH, reset_state, "os_compute_api:os-admin-actions:reset_state", action="os-resetState",
          body=schema.RESET_STATE, status=202),
]
