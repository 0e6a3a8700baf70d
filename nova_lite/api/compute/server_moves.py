"""POST /servers/{server_id}/action: resize, confirmResize, revertResize and migrate."""
from __future__ import annotations

from nova_lite.api.compute.schemas import server_actions as schema
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.instance import Instance

PATH = "/servers/{server_id}/action"
_RESIZE, _CONFIRM, _REVERT = (f"os_compute_api:servers:{name}" for name in ("resize", "confirm_resize", "revert_resize"))
_MIGRATE = "os_compute_api:os-migrate-server:migrate"


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
        req.can(f"{_MIGRATE}:host", instance)
    req.services.compute.migrate(req.context, instance, host)


ROUTES = [
    Route("POST", PATH, resize, _RESIZE, action="resize", body=schema.RESIZE, status=202),
    Route("POST", PATH, confirm_resize, _CONFIRM, action="confirmResize", body=schema.no_argument("confirmResize"),
          status=204),
    Route("POST", PATH, revert_resize, _REVERT, action="revertResize", body=schema.no_argument("revertResize"), status=202),
    Route("POST", PATH, migrate, _MIGRATE, action="migrate", body=schema.MIGRATE, status=202),
]
