"""nova-lite-policy: sample, check and explain the policy rules."""
from __future__ import annotations

from oslo_config import cfg

from nova_lite.manage import policy
from nova_lite.runtime import service

NAME = "nova-lite-policy"


def main() -> int:
    """Run one command; an error is one line and exit status 1."""
    return service.run(NAME, _main)


def _main() -> int:
    conf = service.load(NAME, [cfg.SubCommandOpt("command", handler=policy.add_parsers, title="commands")], logging=False)
    status: int = conf.command.function(conf, conf.command)
    return status
