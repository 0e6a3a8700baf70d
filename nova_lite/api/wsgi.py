"""Loads the applications of api-paste.ini; ``nova_lite.api.wsgi:application`` is the entry for uWSGI and gunicorn."""
from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

import nova_lite
from nova_lite import exception
from nova_lite.api.openstack import loading

if TYPE_CHECKING:
    from nova_lite.api.app import Services

Application = Callable[..., Any]
COMPUTE = "compute"
METADATA = "metadata"
CONF_VARIABLE = "NOVA_LITE_CONF"
"""Names the configuration file of :data:`application`."""


def loadapp(conf: cfg.ConfigOpts, name: str = COMPUTE, services: Services | None = None,
            modules: Sequence[ModuleType] | None = None, validate_responses: bool = False) -> Application:
    """The application ``name`` (``compute`` or ``metadata``) of api-paste.ini.

    For tests: ``services`` instead of those that ``conf`` describes, ``modules`` instead of those of the entry points, and
    ``validate_responses`` to raise ResponseMismatch for an answer that its schema does not allow. Raises ConfigError.
    """
    from paste import deploy

    path = find_paste_config(conf)
    with loading.begin(loading.Loading(conf, services, modules, validate_responses)) as global_conf:
        try:
            return deploy.loadapp(f"config:{path}", name=name, global_conf=global_conf)
        except LookupError as error:
            raise exception.ConfigError(reason=f"{path}: {error}") from error


def find_paste_config(conf: cfg.ConfigOpts) -> str:
    """[api] paste_config, else the installed api-paste.ini, else that of the checkout. Raises ConfigError."""
    if conf.api.paste_config:
        candidates = [Path(conf.api.paste_config).absolute()]
    else:
        roots = (Path("/"), Path(sys.prefix), Path(nova_lite.__file__).parents[1])
        candidates = [root / "etc/nova_lite/api-paste.ini" for root in roots]
    for path in candidates:
        if path.is_file():
            return str(path)
    raise exception.ConfigError(reason="no api-paste.ini at " + ", ".join(str(path) for path in candidates))


def embedded_factory(global_conf: dict[str, str], part: str = "", **_local: str) -> Application | None:
    """Paste application factory of an embedded neighbour; None where the real one is used."""
    conf = loading.current(global_conf).conf
    if conf.api.auth_strategy != "embedded":
        return None
    from importlib import import_module

    return import_module(f"nova_lite.embedded.{part}").factory(conf)


def metadata_factory(global_conf: dict[str, str], **_local: str) -> Application:
    """Paste application factory of the metadata service."""
    from nova_lite.api.metadata import handler

    return handler.factory(loading.current(global_conf).conf)


class LazyApplication:
    """Reads its configuration at the first request, so that importing this module needs none and cannot fail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._app: Application | None = None
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if self._app is None:
            with self._lock:
                if self._app is None:
                    self._app = self._load()
        return self._app(environ, start_response)

    def _load(self) -> Application:
        from nova_lite import concurrency

        # the server made its threads long ago: it is too late for green ones, unless it says that it has them
        os.environ.setdefault(concurrency.VARIABLE, "threading")
        concurrency.setup()
        from oslo_log import log

        from nova_lite import conf as nova_lite_conf

        file = os.environ.get(CONF_VARIABLE)
        conf = nova_lite_conf.load([], config_files=[file] if file else None)
        log.setup(conf, "nova_lite")
        return loadapp(conf, self.name)


application = LazyApplication(COMPUTE)
metadata_application = LazyApplication(METADATA)
