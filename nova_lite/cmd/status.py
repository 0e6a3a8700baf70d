"""nova-lite-status upgrade check."""
from __future__ import annotations

from typing import Any

from oslo_config import cfg

from nova_lite import status
from nova_lite.runtime import service

NAME = "nova-lite-status"


def main() -> int:
    """Run the checks; the exit status is that of the worst."""
    return service.run(NAME, _main)


def _main() -> int:
    return status.upgrade_check(service.load(NAME, [cfg.SubCommandOpt("area", handler=_parsers, title="areas")]))


def _parsers(subparsers: Any) -> None:
    upgrade = subparsers.add_parser("upgrade", help="may this deployment be upgraded or started?")
    upgrade.add_subparsers(dest="command", required=True).add_parser("check", help="ask database, broker and services")
