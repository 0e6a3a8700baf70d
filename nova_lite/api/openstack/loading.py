"""The objects that the factories named in api-paste.ini need, while one application is loaded.

PasteDeploy calls factories with strings only. So ``nova_lite.api.wsgi.loadapp`` keeps a :class:`Loading` here while it loads,
and passes its key in the global configuration of paste. Options stay arguments, as everywhere else, and are not global.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING

from oslo_config import cfg

from nova_lite import exception

if TYPE_CHECKING:
    from nova_lite.api.app import Services
    from nova_lite.api.openstack.router import Router

KEY = "nova_lite_loading"
_numbers = itertools.count(1)
_under_way: dict[str, Loading] = {}


@dataclass
class Loading:
    """``modules`` None: those of the entry points. ``given`` None: services are made of the options."""

    conf: cfg.ConfigOpts
    given: Services | None = None
    modules: Sequence[ModuleType] | None = None
    validate_responses: bool = False

    @cached_property
    def services(self) -> Services:
        """The services that handlers call, made at the first need."""
        from nova_lite.api.app import make_services

        return self.given or make_services(self.conf, self.modules)

    @cached_property
    def router(self) -> Router:
        """The API; /v2 and /v2.1 share it."""
        from nova_lite.api.openstack import registry, router

        modules = self.modules if self.modules is not None else registry.load_modules()
        table = registry.Registry(modules, check_schemas=self.validate_responses)
        return router.Router(self.services, table, self.validate_responses)


@contextmanager
def begin(loading: Loading) -> Iterator[dict[str, str]]:
    """Paste's global configuration for the time of loading."""
    key = str(next(_numbers))
    _under_way[key] = loading
    try:
        yield {KEY: key}
    finally:
        del _under_way[key]


def current(global_conf: Mapping[str, str]) -> Loading:
    """The loading that a paste factory is called for."""
    try:
        return _under_way[global_conf[KEY]]
    except KeyError:
        raise exception.ConfigError(reason="the applications of api-paste.ini are loaded by nova_lite.api.wsgi.loadapp") \
            from None
