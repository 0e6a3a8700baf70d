"""nova-lite-manage: the commands of an operator. One function per command, one table of them."""
from __future__ import annotations

import argparse
import functools
import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from logging import WARNING, getLogger
from typing import Any

from oslo_config import cfg

from nova_lite import units
from nova_lite.api.openstack import microversions
from nova_lite.db.core import Database
from nova_lite.runtime import launcher

_COPY = "Copy the file to all machines with an API or a conductor"


@dataclass(frozen=True)
class Command:
    """``nova-lite-manage <area> <name>``; ``arguments`` are those of argparse's add_argument. The function may answer the exit
    status; None is 0."""

    area: str
    name: str
    function: Callable[[cfg.ConfigOpts, argparse.Namespace], int | None]
    help: str
    arguments: tuple[tuple[str, dict[str, Any]], ...] = field(default=())


def db_sync(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> None:
    """Bring the schema up to date, and make the keys of secrets where there are none."""
    from nova_lite.db import migration, secret_keys

    migration.sync(conf, arguments.revision)
    print(f"The database is at revision {migration.version(conf)[0]}.")
    if secret_keys.ensure(conf):
        print(f"The keys for secrets in it are in {conf.database.secret_keys_file}. {_COPY}.")


def db_version(conf: cfg.ConfigOpts, _arguments: argparse.Namespace) -> None:
    """Say which schema the database has, and which is the newest."""
    from nova_lite.db import migration

    current, head = migration.version(conf)
    print(f"{current or 'empty'} (newest: {head})")


def secrets_rotate(conf: cfg.ConfigOpts, _arguments: argparse.Namespace) -> None:
    """Change the key that seals secrets in the database."""
    from nova_lite.db import secret_keys

    secret_keys.rotate(conf)
    print(f"{conf.database.secret_keys_file} has a new key. {_COPY} before the next rotation.")


def service_list(conf: cfg.ConfigOpts, _arguments: argparse.Namespace) -> None:
    """List the services and whether they report."""
    from nova_lite.db import services

    db = Database(conf)
    with db.read() as connection:
        rows = services.list_all(connection)
    print(f"{'binary':<24} {'host':<32} {'status':<9} {'state':<6} last seen")
    for row in rows:
        state = "up" if services.is_up(row, conf.compute.service_down_time) else "down"
        print(f"{row['binary']:<24} {row['host']:<32} {'disabled' if row['disabled'] else 'enabled':<9} {state:<6} "
              f"{units.isotime(row['last_seen_at'])}")


def action_list(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> None:
    """List the open actions, oldest first."""
    from nova_lite.manage import open_actions

    for line in open_actions.lines(Database(conf), arguments.on_host, arguments.older_than):
        print(line)


def host_drain(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Move all servers of a host to others; 0 when it is empty."""
    from nova_lite.api.app import make_services
    from nova_lite.manage import drain
    from nova_lite.runtime import checks

    checks.check_database(conf)
    checks.check_broker(conf)
    checks.check_cloud(conf)
    if not conf.debug:      # a line for each action, between those of the report
        getLogger("nova_lite.compute.api").setLevel(WARNING)
    services = make_services(conf)
    emptying = drain.Drain(services.db, services.compute, arguments.compute_host, arguments.parallel, arguments.live_only,
                           arguments.timeout, functools.partial(print, flush=True))

    def stop(_number: int, _frame: object) -> None:
        emptying.stop()
        for number in launcher.STOP:        # a second signal ends the process at once
            signal.signal(number, signal.SIG_DFL)
    for number in launcher.STOP:
        signal.signal(number, stop)
    try:
        return 0 if emptying.run() else 1
    finally:
        services.db.dispose()


def host_key_create(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> None:
    """Print a new key of a compute host."""
    from nova_lite.manage import host_keys

    print(host_keys.create(conf, arguments.compute_host))


def host_key_list(conf: cfg.ConfigOpts, _arguments: argparse.Namespace) -> None:
    """List which keys compute hosts have."""
    from nova_lite.manage import host_keys

    print("\n".join(host_keys.lines(conf)))


def host_key_revoke(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Revoke a key of a compute host, or all; 1: there was none."""
    from nova_lite.manage import host_keys

    count = host_keys.revoke(conf, arguments.compute_host, arguments.key)
    print(f"{count} of the keys of {arguments.compute_host} were revoked.")
    return 0 if count else 1


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def network_create(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> None:
    """Add a network of the embedded driver."""
    from nova_lite.db import networks

    made = Database(conf).write(networks.create_network, name=arguments.network_name, cidr=arguments.cidr,
                                project_id=arguments.project or None, dns=arguments.dns or [], mtu=conf.network.mtu,
                                bridge_prefix=conf.network.bridge_prefix)
    print(f"{made['uuid']} {made['name']} {made['cidr']} bridge {made['bridge']}")


def embedded_setup(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> None:
    """Users, flavors, a network and an image for a cloud with ``auth_strategy = embedded``, and its clouds.yaml."""
    from nova_lite.standalone import seed

    seed.seed(conf, Database(conf), arguments.image_file)
    print(f"clouds.yaml: {conf.state_path}/clouds.yaml")


def api_openapi(_conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> None:
    """Print the OpenAPI document of one microversion."""
    from nova_lite.api.compute import openapi

    print(json.dumps(openapi.document(arguments.microversion), indent=1))


AREAS = {"action": "the open actions", "api": "the compute API's description", "db": "the schema of the database",
         "secrets": "the keys of secrets in the database",
         "host": "compute hosts", "service": "the processes of this cloud", "network": "embedded networks",
         "embedded": "a cloud without neighbours: its users, flavors, first image"}
COMMANDS = (
    Command("action", "list", action_list, "list the open actions, oldest first, with step and holder", (
        ("--host", {"dest": "on_host", "default": None, "metavar": "HOST",
                    "help": "only actions of this host and of the servers on it"}),
        ("--older-than", {"default": 0.0, "type": float, "metavar": "SECONDS", "help": "only actions that are older"}))),
    Command("api", "openapi", api_openapi, "print the OpenAPI 3.1 document of the compute API", (
        ("--microversion", {"default": microversions.MAX, "help": "2.1 to the newest, which it is by default"}),)),
    Command("db", "sync", db_sync, "bring the schema up to date, and make the keys of secrets where there are none", (
        ("--revision", {"default": "head", "help": "the newest by default"}),)),
    Command("db", "version", db_version, "print the revision of the schema"),
    Command("secrets", "rotate", secrets_rotate, "change the key that seals secrets in the database"),
    Command("service", "list", service_list, "list the services and whether they report"),
    Command("host", "drain", host_drain, "disable a compute host and move its servers away, live or cold; 0: it is empty", (
        ("compute_host", {"metavar": "HOST", "help": "as `service list` shows it"}),
        ("--parallel", {"type": _at_least_one, "default": 2, "help": "servers that move at once (2)"}),
        ("--live-only", {"action": "store_true", "help": "shut down no running guest: one that cannot move live stays"}),
        ("--timeout", {"type": float, "default": 3600.0, "metavar": "SECONDS",
                        "help": "after which a move is waited for no longer; it goes on (3600)"}))),
    Command("host", "key-create", host_key_create, "print a new key of a compute host, for its [rpc] host_key", (
        ("compute_host", {"metavar": "HOST", "help": "its [DEFAULT] host"}),)),
    Command("host", "key-list", host_key_list, "list which keys compute hosts have; the keys themselves are not kept"),
    Command("host", "key-revoke", host_key_revoke, "revoke the keys of a compute host", (
        ("compute_host", {"metavar": "HOST", "help": "as `host key-list` shows it"}),
        ("--key", {"type": int, "default": None, "help": "its number, all by default"}))),
    Command("network", "create", network_create, "add an embedded network", (
        ("--name", {"required": True, "dest": "network_name", "help": "by which its users know it"}),
        ("--cidr", {"required": True, "help": "its addresses, e.g. 10.0.0.0/24"}),
        ("--project", {"default": "", "help": "its only user; without it the network is shared"}),
        ("--dns", {"action": "append", "help": "address of a resolver; any number of them"}))),
    Command("embedded", "setup", embedded_setup, "users, flavors, network, image and clouds.yaml for auth_strategy=embedded", (
        ("--image", {"default": "", "dest": "image_file", "help": "qcow2 file of the first image"}),)),
)


def add_parsers(subparsers: Any) -> None:
    """Add every command to oslo.config's sub-commands."""
    areas: dict[str, Any] = {}
    for command in COMMANDS:
        if command.area not in areas:
            parser = subparsers.add_parser(command.area, help=AREAS[command.area])
            areas[command.area] = parser.add_subparsers(dest="command", required=True)
        one = areas[command.area].add_parser(command.name, help=command.help)
        one.set_defaults(function=command.function)
        for flag, options in command.arguments:
            one.add_argument(flag, **options)
