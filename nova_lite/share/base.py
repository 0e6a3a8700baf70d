"""The interface to shares of files: the Shared File System service, or none."""
from __future__ import annotations

from typing import Any, Protocol

from oslo_config import cfg
from stevedore import driver as stevedore_driver

from nova_lite.context import RequestContext
from nova_lite.objects.share import Share


class ShareAPI(Protocol):
    """A context with a token acts as that user, one without as the service.

    All raise ShareNotFound (404) for a share that does not exist or is not visible, and ServiceUnavailable when the service
    does not answer.
    """

    def get(self, context: RequestContext, share_id: str) -> Share:
        """One share."""

    def allow(self, context: RequestContext, share_id: str, address: str) -> None:
        """Let the host with an address mount a share, and wait until it may; run again it does nothing. Raises
        ShareAccessFailed."""

    def deny(self, context: RequestContext, share_id: str, address: str) -> None:
        """The inverse; an access that is gone is no error."""


def load(conf: cfg.ConfigOpts) -> ShareAPI:
    """The driver ``[share] driver``."""
    manager: Any = stevedore_driver.DriverManager("nova_lite.share", conf.share.driver, invoke_on_load=True,
                                                  invoke_args=(conf,))
    return manager.driver
