"""Mistakes in the files of options: unknown names, and passwords that every user of the machine can read."""
from __future__ import annotations

import pathlib
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from oslo_config import cfg
from stevedore import extension, named

# start of a group's name -> the libraries that have options there; none is loaded for nothing
_LIBRARIES = {"DEFAULT": ("oslo.log", "oslo.messaging"), "oslo_messaging": ("oslo.messaging",),
              "oslo_concurrency": ("oslo.concurrency",), "oslo_policy": ("oslo.policy",),
              "keystone_authtoken": ("keystonemiddleware.auth_token",)}
# groups with credentials of the service user, which keystoneauth reads
_CREDENTIALS = ("service_user", "keystone_authtoken")
# their options depend on a plugin, or are a WSGI filter's own
_OPEN = {"barbican", "barbican_service_user", "cors", "healthcheck", "key_manager", "oslo_limit", "oslo_middleware", "vault"}
_SQLITE = "sqlite:///"

Sections = dict[str, dict[str, list[str]]]


def unknown(conf: cfg.ConfigOpts, ours: Iterable[tuple[str, Iterable[cfg.Opt]]]) -> list[str]:
    """``[group] name`` of each option in the files of ``conf`` that neither ``ours`` nor a library has, in order: a misspelt
    one, or one of Nova that nova_lite lacks. Raises ConfigFileParseError."""
    sections: Sections = {}
    for path in _paths(conf):
        cfg.ConfigParser(str(path), sections).parse()
    left = {(group, name.replace("-", "_")) for group, names in sections.items() for name in names if group not in _OPEN}
    left -= {*_names(ours), *_credentials(sections)}
    asked = {library for start, libraries in _LIBRARIES.items() for library in libraries
             if any(group.startswith(start) for group, _ in left)}
    if not asked:
        return [f"[{group}] {name}" for group, name in sorted(left)]
    loaded: Iterable[extension.Extension] = named.NamedExtensionManager("oslo.config.opts", sorted(asked), invoke_on_load=True)
    for library in loaded:
        left -= set(_names(library.obj or ()))
    return [f"[{group}] {name}" for group, name in sorted(left)]


def _credentials(sections: Sections) -> Iterator[tuple[str, str]]:
    """The options of the auth types that the files name. For an unknown auth type, which ends the start, all options."""
    for group in _CREDENTIALS:
        if group not in sections:
            continue
        from keystoneauth1 import exceptions, loading

        yield from _names([(group, [*loading.get_session_conf_options(), *loading.get_auth_common_conf_options()])])
        where = _value(sections, group, "auth_section") or group
        kind = _value(sections, where, "auth_type") or _value(sections, where, "auth_plugin") or "password"
        try:
            options = loading.get_auth_plugin_conf_options(kind)
        except exceptions.NoMatchingPlugin:
            yield from ((where, name.replace("-", "_")) for name in sections.get(where, ()))
        else:
            yield from _names([(where, [*loading.get_auth_common_conf_options(), *options])])


def _value(sections: Sections, group: str, name: str) -> str:
    return "".join(sections.get(group, {}).get(name, [""])[-1:])


def exposed(conf: cfg.ConfigOpts) -> list[str]:
    """The files of ``conf``, and those with secrets that it names, which every user of this machine can read."""
    named = [conf.database.secret_keys_file, conf.vnc.vencrypt_client_key]
    # a key may be in the file of its certificate
    named += [group.tls_key_file or group.tls_cert_file for group in (conf.api, conf.console)]
    if conf.database.connection.startswith(_SQLITE):        # it contains data for guests
        named.append(conf.database.connection.removeprefix(_SQLITE).partition("?")[0])
    return [str(path) for path in [*_paths(conf), *(pathlib.Path(name) for name in named if name)] if _is_exposed(path)]


def _is_exposed(path: pathlib.Path) -> bool:
    """False for a file that does not exist, or that this process cannot read either."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH) and all(
            directory.stat().st_mode & stat.S_IXOTH for directory in path.resolve().parents)
    except OSError:
        return False


def _paths(conf: cfg.ConfigOpts) -> list[pathlib.Path]:
    found = [pathlib.Path(path) for path in conf.config_file or ()]
    for directory in conf.config_dir or ():
        found += sorted(pathlib.Path(directory).glob("*.conf"))
    return found


def _names(options: Iterable[tuple[Any, Iterable[cfg.Opt]]]) -> Iterator[tuple[str, str]]:
    for group, some in options:
        name = group.name if isinstance(group, cfg.OptGroup) else group or "DEFAULT"
        for option in some:
            yield name, option.dest
            for old in option.deprecated_opts:
                yield old.group or name, (old.name or option.name).replace("-", "_")
