"""POST /servers/{server_id}/action: resize, confirmResize, revertResize and migrate."""
from __future__ import annotations

from nova_lite.api.compute.schemas import server_actions as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, manager, member, nobody

PATH = "/servers/{server_id}/action"
_SERVERS, _MIGRATE = "os_compute_api:servers:", "os_compute_api:os-migrate-server:migrate"
_TO_HOST = admin(f"{_MIGRATE}:host", "Migrate a server to a named host.", "POST /servers/{server_id}/action (migrate)")


def resize(req: Request, instance: Instance) -> None:
    """Begin to give a server another flavor."""
    flavor_id = str(req.argument["flavorRef"]).rstrip("/").rpartition("/")[2]
    req.services.compute.resize(req.context, instance, flavor_id, req.argument.get("OS-DCF:diskConfig"))


def confirm_resize(req: Request, instance: Instance) -> None:
    """Keep what a resize or a migration has made of a server."""
    req.services.compute.confirm_resize(req.context, instance)


def revert_resize(req: Request, instance: Instance) -> None:
    """Go back to what it was."""
    req.services.compute.revert_resize(req.context, instance)


def migrate(req: Request, instance: Instance) -> None:
    """Begin to move a server to another host."""
    host = (req.argument or {}).get("host") if req.since("2.56") else None
    if host is not None:
        req.can(_TO_HOST, instance)
    req.services.compute.migrate(req.context, instance, host)


ROUTES = [
    Route("POST", PATH, resize, member(f"{_SERVERS}resize", "Resize a server."), action="resize", body=schema.RESIZE,
          status=202),
    Route("POST", PATH, confirm_resize, member(f"{_SERVERS}confirm_resize", "Confirm a resize."), action="confirmResize",
          body=schema.no_argument("confirmResize"), status=204),
    Route("POST", PATH, revert_resize, member(f"{_SERVERS}revert_resize", "Revert a resize."), action="revertResize",
          body=schema.no_argument("revertResize"), status=202),
    Route("POST", PATH, migrate, manager(_MIGRATE, "Migrate a server without naming a host."), action="migrate",
          body=schema.MIGRATE, status=202),
]
RULES = [_TO_HOST, nobody("compute:servers:resize:cross_cell", "Resize a server to another cell.",
                          "POST /servers/{server_id}/action (resize)")]
