"""The service at 169.254.169.254. It knows no database: the conductor tells which server asks.

A request with ``X-Instance-ID`` signed by ``[metadata] shared_secret`` comes from Neutron's agent. Any other request is
answered by the address that it comes from, the true one of the connection: the headers are the guest's to write.
"""
from __future__ import annotations

import hashlib
import hmac
import ipaddress
import threading
import time
import uuid as uuidlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import oslo_messaging as messaging
import webob
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, rpc
from nova_lite.api.metadata import tree
from nova_lite.context import RequestContext, admin_context
from nova_lite.objects.instance import Instance

LOG = log.getLogger(__name__)
CACHE_SIZE = 1000


class Conductor(Protocol):
    """What the handler needs of ``conductor.rpcapi.ConductorAPI``."""

    def instance_by_address(self, context: RequestContext, address: str, network_id: str | None = None) -> Any:
        """The server (primitive) whose port has the address, or None."""

    def instance_metadata(self, context: RequestContext, instance_uuid: str) -> Any:
        """The server (primitive) of a uuid; InstanceNotFound or None."""


def factory(conf: cfg.ConfigOpts) -> MetadataHandler:
    """The WSGI application of the paste pipeline ``metadata``."""
    from nova_lite.conductor.rpcapi import ConductorAPI

    return MetadataHandler(conf, ConductorAPI(rpc.get_transport(conf)))


class MetadataHandler:
    """A WSGI application.

    Answers to signed requests are kept for ``cache_seconds``, by the server's uuid. What was found by an address is never
    kept: as soon as a server is deleted its address may be another tenant's.
    """

    def __init__(self, conf: cfg.ConfigOpts, conductor: Conductor, clock: Callable[[], float] = time.monotonic) -> None:
        self._conductor, self._clock = conductor, clock
        self._secret: str = conf.metadata.shared_secret
        self._seconds: int = conf.metadata.cache_seconds
        self._cache: dict[str, tuple[float, Instance]] = {}
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._answer(webob.Request(environ))(environ, start_response)

    def _answer(self, req: webob.Request) -> webob.Response:
        if req.method not in ("GET", "HEAD"):
            return webob.Response(status=405, allow="GET, HEAD", text="Only GET is served here.\n", content_type="text/plain")
        path = req.path_info
        if not path.strip("/"):
            return webob.Response(body=tree.root(), content_type="text/plain", charset="UTF-8")
        instance = self._by_signature(req) if self._secret and "X-Instance-ID" in req.headers else self._by_address(req)
        found = tree.find(tree.documents(instance), path) if instance else None
        if found is None:
            return webob.Response(status=404, text="Not found.\n", content_type="text/plain")
        body, content_type = found
        charset = None if content_type == "application/octet-stream" else "UTF-8"
        return webob.Response(body=body, content_type=content_type, charset=charset)

    def _by_address(self, req: webob.Request) -> Instance | None:
        try:
            address = ipaddress.ip_address(req.environ.get("REMOTE_ADDR", ""))
        except ValueError:
            return None
        mapped = getattr(address, "ipv4_mapped", None)       # the listener may be one for both families
        return self._ask(self._conductor.instance_by_address, address=str(mapped or address))

    def _by_signature(self, req: webob.Request) -> Instance | None:
        instance_id, tenant = req.headers["X-Instance-ID"], req.headers.get("X-Tenant-ID")
        expected = hmac.new(self._secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()
        signature = req.headers.get("X-Instance-ID-Signature", "")
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            LOG.warning("request from %s with a wrong X-Instance-ID-Signature", req.environ.get("REMOTE_ADDR"))
            raise exception.Forbidden("Invalid proxy request signature.")
        try:
            instance_id = str(uuidlib.UUID(instance_id))
        except ValueError:
            raise exception.Invalid("X-Instance-ID is not a UUID.") from None
        if not tenant:
            raise exception.Invalid("X-Tenant-ID header is missing from request.")
        instance = self._cached(instance_id)
        # ports of one tenant's network cannot stand for another tenant's server
        return instance if instance is not None and instance.project_id == tenant else None

    def _cached(self, instance_id: str) -> Instance | None:
        now = self._clock()
        with self._lock:
            expires, instance = self._cache.get(instance_id, (0.0, None))
        if instance is not None and now < expires:
            return instance
        instance = self._ask(self._conductor.instance_metadata, instance_uuid=instance_id)
        if instance is not None and self._seconds:
            with self._lock:
                self._cache = {k: v for k, v in self._cache.items() if v[0] > now and len(self._cache) < CACHE_SIZE}
                self._cache[instance_id] = (now + self._seconds, instance)
        return instance

    def _ask(self, method: Callable[..., Any], **arguments: str) -> Instance | None:
        try:
            found = method(admin_context(), **arguments)
        except exception.NotFound:
            return None
        except messaging.MessagingException as error:
            raise exception.ServiceUnavailable(what="Conductor", reason=str(error)) from error
        return None if found is None else found if isinstance(found, Instance) else Instance.from_primitive(found)
