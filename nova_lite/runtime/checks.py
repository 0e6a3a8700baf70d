"""Do the neighbours answer, and is the broker this cloud's? Asked when a process starts, and by ``nova-lite-status``; an answer
of one line if not."""
from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_config import cfg

from nova_lite import exception, retry, rpc

BROKER_WAIT = 10.0


def check_database(conf: cfg.ConfigOpts) -> None:
    """Raise ServiceUnavailable or ConfigError unless the database answers and its schema is at head."""
    # the compute daemon runs through this module too, and sqlalchemy is a quarter of its memory
    import sqlalchemy as sa

    from nova_lite.db import core, schema

    _check_connection_is_set(conf)
    database = core.Database(conf)
    try:
        database.check()
        with database.read() as connection:
            schema.check(connection)
    except sa.exc.SQLAlchemyError as error:
        raise exception.ServiceUnavailable(what="The database", reason=first_line(error)) from None
    finally:
        database.dispose()


def check_secret_keys(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigError unless secrets can be stored in the database and read there."""
    from nova_lite.db.secret_keys import SecretKeys

    SecretKeys(conf.database.secret_keys_file).check()


def _check_connection_is_set(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigError for a service that shares a broker with others, but would use a database file of its own: it would take
    messages about servers of another database."""
    try:
        alone = _is_alone(conf)
    except oslo_messaging.MessagingException:
        return          # reported by check_broker
    said = conf.get_location("connection", "database")
    if not alone and (said is None or said.location is cfg.Locations.opt_default):
        raise exception.ConfigError(reason="[database] connection is not set: a service with a message broker needs the "
                                           "database of the cloud")


def _is_alone(conf: cfg.ConfigOpts) -> bool:
    """Whether the broker is in this process, so that no other service can be there."""
    return oslo_messaging.TransportURL.parse(conf).transport in ("in-process", "fake", "kombu+memory")


def check_cloud(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigError when the services on the broker are of another cloud than the database. Whoever sends or takes
    messages asks this before; database and broker must have been checked."""
    if _is_alone(conf):
        return
    from nova_lite.db import cloud, core
    from nova_lite.rpc import cloud_id

    database = core.Database(conf)
    try:
        with database.read() as connection:
            mine = cloud.find_id(connection)
    finally:
        database.dispose()
    if mine is None:
        raise exception.ConfigError(reason="The database has no row in its table 'cloud', which 'nova-lite-manage db sync' has "
                                           "made: restore it from a backup")
    transport = rpc.get_transport(conf)
    try:
        found = cloud_id.find(transport)
    finally:
        transport.cleanup()
    if found is not None and found.cloud != mine:
        raise exception.ConfigError(
            reason=f"[database] connection names the database of cloud {mine}, and the {found.service}, which answers at "
                   f"transport_url, is of cloud {found.cloud}. No message was sent or taken")


def check_broker(conf: cfg.ConfigOpts, wait: float = BROKER_WAIT) -> None:
    """Raise ServiceUnavailable unless one of the brokers of ``transport_url`` lets us in within ``wait`` seconds."""
    try:
        rpc.get_transport(conf).cleanup()       # registers the options and rejects an unknown kind of transport
        url = oslo_messaging.TransportURL.parse(conf)
    except (oslo_messaging.MessagingException, ValueError) as error:
        raise exception.ConfigError(reason=f"transport_url: {first_line(error)}") from None
    if not url.transport.startswith(("rabbit", "amqp", "kombu")):
        return
    hosts = url.hosts or [oslo_messaging.TransportHost()]
    problems = retry.poll(lambda: [problem for host in hosts if (problem := _try_broker(conf, url, host))],
                          lambda found: len(found) < len(hosts) or any(is_final for _, is_final in found),
                          retry.every(0.5, timeout=wait))
    if len(problems) == len(hosts):
        raise exception.ServiceUnavailable(what="The message broker", reason="; ".join(said for said, _ in problems))


def _try_broker(conf: cfg.ConfigOpts, url: Any, host: Any) -> tuple[str, bool] | None:
    """None when the broker accepts the connection; else its error, and whether a further try is useless."""
    import amqp
    import kombu

    name, port = host.hostname or "localhost", host.port or 5672
    try:
        with kombu.Connection(hostname=name, port=port, userid=host.username or "guest",
                              password=host.password or "guest", virtual_host=url.virtual_host or "/",
                              ssl=_tls(conf), connect_timeout=3, transport="pyamqp",
                              login_method=conf.oslo_messaging_rabbit.rabbit_login_method) as connection:
            connection.connect()
    except amqp.exceptions.AccessRefused:
        return f"{name}:{port} refuses user {host.username or 'guest'!r} or its password", True
    except amqp.exceptions.NotAllowed as error:
        return f"{name}:{port}: {first_line(error)}", True
    except (OSError, amqp.exceptions.AMQPError) as error:
        return f"{name}:{port}: {first_line(error)}", False
    return None


def _tls(conf: cfg.ConfigOpts) -> dict[str, Any] | bool:
    options = conf.oslo_messaging_rabbit
    if not options.ssl:
        return False
    import ssl

    found = {"ca_certs": options.ssl_ca_file, "certfile": options.ssl_cert_file, "keyfile": options.ssl_key_file}
    given = {name: value for name, value in found.items() if value}
    return {**given, "cert_reqs": ssl.CERT_REQUIRED} if options.ssl_ca_file else given or True


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its kind where it has none."""
    return (str(error).splitlines() or [""])[0].strip() or type(error).__name__
