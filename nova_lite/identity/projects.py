"""Whether a project exists: Keystone is asked where an admin names a project that is not the caller's own."""
from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext

if TYPE_CHECKING:
    from nova_lite.identity.keystone import Client

LOG = log.getLogger(__name__)


class Projects:
    """Nothing connects before the first question; only ``[api] auth_strategy = keystone`` asks any."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._client: Client | None = None

    def check(self, context: RequestContext, project_id: str) -> None:
        """Raise Invalid (400) for a project that Keystone does not have. Any other answer, and none, is accepted, as in Nova:
        the check is not about the rights of the caller, nor whether Keystone is up."""
        if self._conf.api.auth_strategy != "keystone" or project_id == context.project_id:
            return
        if not project_id.strip("."):       # no part of a path
            raise _unknown(project_id)
        from nova_lite.identity import keystone

        try:
            self._ask().call(context, "GET", f"/projects/{quote(project_id, safe='')}")
        except exception.NovaLiteError as error:
            if isinstance(error, keystone.NeighbourError) and error.status == 404:
                raise _unknown(project_id) from error
            LOG.info("whether project %s exists is not known: %s", project_id, error)

    def _ask(self) -> Client:
        from nova_lite.identity import keystone  # takes its time and memory: few processes ever need it

        if self._client is None:
            self._client = keystone.Client(self._conf, "identity", "Keystone", 3)
        return self._client


def _unknown(project_id: str) -> exception.Invalid:
    return exception.Invalid(f"Project ID {project_id} is not a valid project.")
