"""A cloud without shares."""
from __future__ import annotations

from oslo_config import cfg

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.objects.share import Share


class NoShares:
    """The share driver ``none``: there are no shares."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Nothing to connect to."""

    def get(self, context: RequestContext, share_id: str) -> Share:
        """Raises SharesNotSupported, which names the missing service to users."""
        raise exception.SharesNotSupported(reason="this cloud has no Shared File System service")

    def allow(self, context: RequestContext, share_id: str, address: str) -> None:
        """See ``get``."""
        self.get(context, share_id)

    def deny(self, context: RequestContext, share_id: str, address: str) -> None:
        """Nothing was allowed."""
