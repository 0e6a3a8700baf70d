"""Reads the configuration files again, on SIGHUP: options that may change at run time, and the URLs of database and broker.

Passwords change by their URLs. A new URL is used when all checks of the start have succeeded with it. Then the hooks of
``conf`` (``register_mutate_hook``) notify the owners of connections, which make new ones; work under way ends on the old ones.
"""
from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from nova_lite import conf as conf_module
from nova_lite import exception

LOG = log.getLogger(__name__)
Checks = Sequence[Callable[[cfg.ConfigOpts], None]]
Urls = dict[tuple[str | None, str], str]        # by group and name
URLS = ((None, "transport_url"), ("database", "connection"))


def reread(conf: cfg.ConfigOpts, checks: Checks = ()) -> None:
    """Change the options that may change, and log their names. Without ``checks`` the URLs stay, too."""
    told = logging.getLogger(cfg.__name__)
    told.addFilter(_is_not_of_a_url)
    try:
        changed = _change(conf, _changed_urls(conf, checks))
    except (exception.NovaLiteError, cfg.Error, oslo_messaging.MessagingException) as error:
        LOG.error("the configuration was not read again: %s", " ".join(str(error).split()))
    except Exception:       # the service continues without a change
        LOG.exception("the configuration was not read again")
    else:
        LOG.info("the configuration was read again; changed: %s", ", ".join(sorted(changed)) or "nothing")
    finally:
        told.removeFilter(_is_not_of_a_url)


def _change(conf: cfg.ConfigOpts, urls: Urls) -> set[str]:
    """Let the hooks use the new values; returns the names. When a hook fails, all go back to the old URLs."""
    before = {(group, name): url for (group, name), url in _urls(conf) if (group, name) in urls}
    try:
        _override(conf, urls)
        mutated = conf.mutate_config_files()
    except Exception:
        _override(conf, before)
        conf.mutate_config_files()
        raise
    return {f"{group or 'DEFAULT'}.{name}" for group, name in {*urls, *mutated}}


def _override(conf: cfg.ConfigOpts, urls: Urls) -> None:
    for (group, name), url in urls.items():
        conf.set_override(name, url, group)


def _changed_urls(conf: cfg.ConfigOpts, checks: Checks) -> Urls:
    """The URLs that are others now, and work. Raises NovaLiteError, cfg.Error."""
    if not checks:
        return {}
    fresh = conf_module.load([*(f"--config-file={file}" for file in conf.config_file or ()),
                              *(f"--config-dir={directory}" for directory in conf.config_dir or ())])
    before, after = (dict(_urls(one)) for one in (conf, fresh))
    if before != after:
        for check in checks:
            check(fresh)
    return {key: after[key] for key in before if after[key] != before[key]}


def _urls(conf: cfg.ConfigOpts) -> Iterator[tuple[tuple[str | None, str], str]]:
    oslo_messaging.TransportURL.parse(conf, "fake://")      # registers transport_url
    for group, name in URLS:
        yield (group, name), str((conf[group] if group else conf)[name])


def _is_not_of_a_url(record: logging.LogRecord) -> bool:
    """oslo.config warns of each immutable option that has changed in the files."""
    arguments = record.args if isinstance(record.args, dict) else {}
    return (arguments.get("group"), arguments.get("option")) not in {(group or "DEFAULT", name) for group, name in URLS}
