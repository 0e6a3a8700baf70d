"""Consoles of servers: a host gives the address of a console, and a token is made for it."""
from __future__ import annotations

from nova_lite import exception
from nova_lite.compute.api.base import Base
from nova_lite.compute.api.queries import ask
from nova_lite.context import RequestContext
from nova_lite.db import console_auth_tokens
from nova_lite.objects import console as objects
from nova_lite.objects.console import ConsoleAuthToken
from nova_lite.objects.instance import Instance


class Consoles(Base):
    """The token is made here and goes to the user alone: neither the host nor the broker ever sees it."""

    def get_console(self, context: RequestContext, instance: Instance, protocol: str, console_type: str) -> str:
        """The URL of a console, good for ``[console] token_ttl`` seconds.

        Raises InstanceNotReady or InstanceInvalidState (409), ConsoleTypeInvalid or ConsoleTypeUnavailable (400),
        NotImplementedByDriver (501), ServiceUnavailable when the host does not answer.
        """
        if not instance.host:
            raise exception.InstanceNotReady(instance_id=instance.uuid)
        found = ask(f"Console of instance {instance.uuid}", self.compute_rpc.get_console, context, instance.host,
                    instance.uuid, protocol, console_type)
        base_url = found.pop("base_url")
        token = objects.new_token()
        kept = ConsoleAuthToken.from_primitive({**found, "instance_uuid": instance.uuid, "compute_host": instance.host,
                                                "console_type": console_type})
        self.db.write(console_auth_tokens.create, objects.digest(token), kept, self.conf.console.token_ttl)
        return objects.access_url(base_url, console_type, token)

    def get_console_auth_token(self, context: RequestContext, token: str) -> ConsoleAuthToken:
        """The console of a token. Raises ConsoleTokenNotFound."""
        with self.db.read() as connection:
            found = console_auth_tokens.find(connection, objects.digest(token))
        if found is None:
            raise exception.ConsoleTokenNotFound()
        return found
