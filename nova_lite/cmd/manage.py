"""nova-lite-manage: what an operator does by hand."""
from __future__ import annotations

from oslo_config import cfg
from sqlalchemy import exc

from nova_lite import exception, manage
from nova_lite.runtime import service

NAME = "nova-lite-manage"


def main() -> int:
    """Run one command; an error is one line and exit status 1."""
    return service.run(NAME, _main)


def _main() -> int | None:
    conf = service.load(NAME, [cfg.SubCommandOpt("area", handler=manage.add_parsers, title="areas")])
    try:
        return conf.area.function(conf, conf.area)
    except ImportError as error:
        raise exception.ConfigError(reason=f"a Python package is missing or broken: {error}") from None
    except exc.SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise exception.ServiceUnavailable(what="The database", reason=cause) from None
