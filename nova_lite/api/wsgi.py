"""Loads the applications of api-paste.ini; those that uWSGI and gunicorn serve are in ``nova_lite.wsgi``."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
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
"""Names the configuration file of :func:`application_of`."""
LOAD_ERROR = 4      # the exit status by which gunicorn knows that another try is of no use


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
    return import_module(f"nova_lite.embedded.api.{part}").factory(conf)


def metadata_factory(global_conf: dict[str, str], **_local: str) -> Application:
    """Paste application factory of the metadata service."""
    from nova_lite.api.metadata import handler

    return handler.factory(loading.current(global_conf).conf)


def application_of(name: str) -> Application:
    """The application for another WSGI server, with the options of the file that :data:`CONF_VARIABLE` names. A mistake in the
    options, or a service that does not answer, is one line on stderr and the end of the process (SystemExit)."""
    from nova_lite.runtime import concurrency

    # the server has made its threads: green ones are possible only if the server uses them already
    os.environ.setdefault(concurrency.VARIABLE, "threading")
    concurrency.setup()
    from nova_lite.runtime import checks, service

    made: list[Application] = []

    def load() -> None:
        file = os.environ.get(CONF_VARIABLE)
        conf = service.load(f"nova-lite-{name}", argv=["--config-file", file] if file else [])
        if name == COMPUTE:         # the metadata service asks the conductor
            checks.check_database(conf)
            checks.check_secret_keys(conf)
        checks.check_broker(conf)
        if name == COMPUTE:         # it wakes up conductors, which then look into their database
            checks.check_cloud(conf)
        made.append(loadapp(conf, name))
    if service.run(f"nova_lite.wsgi.{name}", load):
        raise SystemExit(LOAD_ERROR)
    return made[0]
