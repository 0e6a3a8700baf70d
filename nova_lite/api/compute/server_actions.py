"""POST /servers/{server_id}/action: power, pause, suspend, lock, console output, reset and forced delete."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nova_lite import operations
from nova_lite.api.compute.schemas import server_actions as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api import ComputeAPI
from nova_lite.compute.api.operations import is_expected_locked_by
from nova_lite.objects.instance import Instance
from nova_lite.operations import record_changes
from nova_lite.policies.base import Rule, admin, member

PATH = "/servers/{server_id}/action"
_LOCK = "os_compute_api:os-lock-server:"
_OVERRIDE = admin(f"{_LOCK}unlock:unlock_override", "Unlock a server that somebody else locked.",
                  "POST /servers/{server_id}/action (unlock)")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")


def _simple(name: str, policy: Rule, begin: Callable[[ComputeAPI, Any, str], None]) -> Route:
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
        req.can(_OVERRIDE, instance)
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
    """Do nothing, as the present drivers of Nova. No guest keeps injected network data: it uses DHCP, the metadata service or
    its config drive."""
    operations.check(record_changes.INJECT_NETWORK_INFO, instance, may_override_lock=bool(req.context.is_admin))


ROUTES = [
    _simple("os-start", member("os_compute_api:servers:start", "Start a server."), ComputeAPI.start),
    _simple("os-stop", member("os_compute_api:servers:stop", "Stop a server."), ComputeAPI.stop),
    _simple("pause", member("os_compute_api:os-pause-server:pause", "Pause a server."), ComputeAPI.pause),
    _simple("unpause", member("os_compute_api:os-pause-server:unpause", "Unpause a server."), ComputeAPI.unpause),
    _simple("suspend", member("os_compute_api:os-suspend-server:suspend", "Suspend a server."), ComputeAPI.suspend),
    _simple("resume", member("os_compute_api:os-suspend-server:resume", "Resume a server."), ComputeAPI.resume),
    _simple("forceDelete", member("os_compute_api:os-deferred-delete:force", "Delete a server at once."),
            ComputeAPI.force_delete),
    Route("POST", PATH, reboot, member("os_compute_api:servers:reboot", "Reboot a server."), action="reboot",
          body=schema.REBOOT, status=202),
    Route("POST", PATH, lock, member(f"{_LOCK}lock", "Lock a server."), action="lock", body=schema.LOCK,
          status=202),
    Route("POST", PATH, unlock, member(f"{_LOCK}unlock", "Unlock a server."), action="unlock",
          body=schema.no_argument("unlock"), status=202),
    Route("POST", PATH, console_output, member("os_compute_api:os-console-output", "Show the end of a server's console log."),
          action="os-getConsoleOutput", body=schema.CONSOLE_OUTPUT, response=schema.CONSOLE_OUTPUT_ANSWER),
    Route("POST", PATH, change_password,
          member("os_compute_api:os-admin-password", "Change the administrator's password of a server."),
          action="changePassword", body=schema.CHANGE_PASSWORD, status=202),
    Route("POST", PATH, inject_network_info,
          admin("os_compute_api:os-admin-actions:inject_network_info", "Inject network information into a server."),
          action="injectNetworkInfo", body=schema.no_argument("injectNetworkInfo"), status=202),
    replace(_simple("trigger_crash_dump",
                    member("os_compute_api:servers:trigger_crash_dump", "Trigger a crash dump in a server (2.17)."),
                    ComputeAPI.trigger_crash_dump), first="2.17", body=schema.TRIGGER_CRASH_DUMP),
    Route("POST", PATH, reset_state,
          admin("os_compute_api:os-admin-actions:reset_state", "Set the state of a server to active or error."),
          action="os-resetState", body=schema.RESET_STATE, status=202),
]
RULES = [_OVERRIDE]
