"""The options of nova_lite: one file per group, some 125 in all.

A ``ConfigOpts`` is made once per process by :func:`load` and passed to whoever needs it; there is no global one, so that
tests and the standalone cloud run many services, each with its own options, in one process.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import version
from nova_lite.conf import (
    api,
    compute,
    conductor,
    console,
    database,
    default,
    fake,
    image,
    key_manager,
    libvirt,
    metadata,
    network,
    notifications,
    nova_names,
    pci,
    quota,
    rpc,
    scheduler,
    serial_console,
    service_user,
    share,
    spice,
    vnc,
    volume,
    wsgi,
)

GROUPS = (default, wsgi, rpc, api, metadata, database, conductor, scheduler, compute, fake, libvirt, pci, service_user, image,
          network, volume, key_manager, share, notifications, quota, console, vnc, spice, serial_console)
for _module in GROUPS:
    nova_names.add(_module.GROUP, _module.OPTS)


def register(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """Register every option of nova_lite on ``conf`` and return it."""
    for module in GROUPS:
        conf.register_opts(module.OPTS, group=None if module.GROUP == "DEFAULT" else module.GROUP)
    log.register_options(conf)
    return conf


def load(argv: Sequence[str] = (), prog: str = "nova-lite", config_files: Sequence[str] | None = None,
         cli_opts: Sequence[cfg.Opt] = (), **overrides: Any) -> cfg.ConfigOpts:
    """Read the options of one process. ``config_files`` None: the files of ``--config-file``/``--config-dir``, else
    oslo.config's usual places (``/etc/nova_lite/nova-lite.conf``). ``overrides`` are ``group__name=value`` (or ``name=value``
    for DEFAULT) and override the files. Raises oslo.config errors for a broken file or value."""
    conf = register(cfg.ConfigOpts())
    if cli_opts:
        conf.register_cli_opts(cli_opts)
    files = list(config_files) if config_files is not None else None
    if files is None and not any(a.startswith("--config") for a in argv):
        files = cfg.find_config_files("nova_lite", "nova-lite")
    conf(list(argv), project="nova_lite", prog=prog, version=version.VERSION, default_config_files=files)
    for key, value in overrides.items():
        group, _, name = key.rpartition("__")
        conf.set_override(name, value, group=group or None)
    return conf


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(module.GROUP, list(module.OPTS)) for module in GROUPS]
