"""The service at 169.254.169.254. It has no access to the database: the conductor finds the server that asks.

With Neutron (``[network] driver = neutron``) every request comes from Neutron's agent, which names the server in
``X-Instance-ID`` and signs that with ``[metadata] shared_secret``. An unsigned request is refused. On the embedded network the
guest itself asks. It is identified by the source address of the connection; the headers are not used, since the guest can write
them. A signed request is accepted there too, when a secret is set.
"""
from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import time
import uuid as uuidlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import oslo_messaging as messaging
import webob
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, rpc, units
from nova_lite.api.metadata import tree
from nova_lite.api.metadata.answers import Answers
from nova_lite.context import RequestContext, admin_context
from nova_lite.objects.instance import PASSWORD_SIZE, Instance
from nova_lite.rpc import sender
from nova_lite.virt import vendor_data

LOG = log.getLogger(__name__)
CACHE_BYTES = 64 * units.MiB
_PASSWORD = re.compile(r"/+openstack/+[^/]+/+password/*")


class Conductor(Protocol):
    """What the handler needs of ``rpc.conductor.ConductorAPI``."""

    def instance_by_address(self, context: RequestContext, address: str, network_id: str | None = None) -> Any:
        """The server (primitive) whose port has the address, or None."""

    def instance_metadata(self, context: RequestContext, instance_uuid: str) -> Any:
        """The server (primitive) of a uuid; InstanceNotFound or None."""

    def set_server_password(self, context: RequestContext, instance_uuid: str, password: str) -> None:
        """Keep what a guest encrypted for its user; raises Conflict when it did so before."""


class _Guest(NamedTuple):
    uuid: str
    project_id: str
    password: str
    documents: tree.Tree
    size: int


def factory(conf: cfg.ConfigOpts) -> MetadataHandler:
    """The WSGI application of the paste pipeline ``metadata``."""
    from nova_lite.rpc.conductor import ConductorAPI

    return MetadataHandler(conf, ConductorAPI(rpc.get_transport(conf), sender.of_service(conf)))


class MetadataHandler:
    """A WSGI application. Answers to signed requests are cached for ``cache_seconds``, by the server's uuid. An answer that was
    found by an address is never cached: when a server is deleted, its address may go to another tenant. Simultaneous requests
    for one server cost one call of the conductor."""

    def __init__(self, conf: cfg.ConfigOpts, conductor: Conductor, clock: Callable[[], float] = time.monotonic) -> None:
        self._conductor = conductor
        self._secret: str = conf.metadata.shared_secret
        self._only_signed = conf.network.driver == "neutron"
        self._vendor_data = vendor_data.load(conf)
        self._answers: Answers[_Guest] = Answers(conf.metadata.cache_seconds, CACHE_BYTES, clock)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._answer(webob.Request(environ))(environ, start_response)

    def _answer(self, req: webob.Request) -> webob.Response:
        try:
            path = req.path_info
        except UnicodeDecodeError:
            return _text(404, "Not found.\n")
        if req.method == "POST" and _PASSWORD.fullmatch(path):
            return self._set_password(req)
        if req.method not in ("GET", "HEAD"):
            return _text(404, "Not found.\n")       # Neutron's agents have no answer for a 405
        if not path.strip("/"):
            return webob.Response(body=tree.root(), content_type="text/plain", charset="UTF-8")
        guest = self._guest(req)
        found = tree.find(guest.documents, path) if guest is not None else None
        if found is None:
            return _text(404, "Not found.\n")
        body, content_type = found
        return webob.Response(body=body, content_type=content_type, charset=_charset(body))

    def _set_password(self, req: webob.Request) -> webob.Response:
        """A guest's password, encrypted with its user's key, is kept once; the user reads it at os-server-password."""
        guest = self._guest(req)
        if guest is None or tree.find(guest.documents, req.path_info) is None:
            return _text(404, "Not found.\n")
        if guest.password:
            raise exception.Conflict("The password was posted before.")
        length = req.content_length
        data = req.body_file_raw.read(PASSWORD_SIZE + 1 if length is None else min(length, PASSWORD_SIZE + 1))
        if len(data) > PASSWORD_SIZE:
            raise exception.Invalid(f"Request is too large: a password has at most {PASSWORD_SIZE} bytes.")
        try:
            password = data.decode("ascii")
        except UnicodeDecodeError:
            raise exception.Invalid("A password is text: the base64 of what was encrypted.") from None
        if not password:
            raise exception.Invalid("The password is missing.")
        self._answers.forget(guest.uuid)
        _call(self._conductor.set_server_password, instance_uuid=guest.uuid, password=password)
        self._answers.forget(guest.uuid)
        LOG.info("the guest posted its password", extra={"instance_uuid": guest.uuid})
        return _text(200, "")

    # who asks -------------------------------------------------------------------------------------------------------
    def _guest(self, req: webob.Request) -> _Guest | None:
        if self._only_signed or (self._secret and "X-Instance-ID" in req.headers):
            return self._by_signature(req)
        return self._by_address(req)

    def _by_address(self, req: webob.Request) -> _Guest | None:
        try:
            address = ipaddress.ip_address(req.environ.get("REMOTE_ADDR", ""))
        except ValueError:
            return None
        mapped = getattr(address, "ipv4_mapped", None)       # the listener may be one for both families
        text = str(mapped or address)
        return self._answers.get(("address", text), lambda: self._ask(self._conductor.instance_by_address, address=text),
                                 _size, keep=False)

    def _by_signature(self, req: webob.Request) -> _Guest | None:
        if "X-Instance-ID" not in req.headers:
            raise exception.Invalid("X-Instance-ID header is missing from request.")
        instance_id, tenant = req.headers["X-Instance-ID"], req.headers.get("X-Tenant-ID")
        self._check_signature(req, instance_id)
        try:
            uuid = str(uuidlib.UUID(instance_id))
        except ValueError:
            raise exception.Invalid("X-Instance-ID is not a UUID.") from None
        if not tenant:
            raise exception.Invalid("X-Tenant-ID header is missing from request.")
        guest = self._answers.get(uuid, lambda: self._ask(self._conductor.instance_metadata, instance_uuid=uuid), _size)
        # a port of one tenant's network must not lead to another tenant's server
        return guest if guest is not None and guest.project_id == tenant else None

    def _check_signature(self, req: webob.Request, instance_id: str) -> None:
        if not self._secret:        # an empty secret would accept every signature
            LOG.error("[metadata] shared_secret is not set: no request of Neutron's metadata agent can be answered")
            raise exception.Forbidden("Invalid proxy request signature.")
        expected = hmac.new(self._secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()
        signature = req.headers.get("X-Instance-ID-Signature", "")
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            LOG.warning("request from %s with a wrong X-Instance-ID-Signature", req.environ.get("REMOTE_ADDR"))
            raise exception.Forbidden("Invalid proxy request signature.")

    def _ask(self, method: Callable[..., Any], **arguments: str) -> _Guest | None:
        try:
            found = _call(method, **arguments)
        except exception.NotFound:
            return None
        if found is None:
            return None
        instance = Instance.from_primitive(found)
        documents, size = tree.documents(instance, self._vendor_data)
        return _Guest(instance.uuid, instance.project_id, instance.encrypted_password, documents, size)


def _call(method: Callable[..., Any], **arguments: str) -> Any:
    try:
        return method(admin_context(), **arguments)
    except messaging.MessagingException as error:
        raise exception.ServiceUnavailable(what="Conductor", reason=error) from error


def _size(guest: _Guest) -> int:
    return guest.size


def _charset(body: bytes) -> str:
    """Neutron's agents decode a document by its charset and encode it again, gzip unpacked before; without a charset they
    answer 502. What is no UTF-8 comes through unchanged as ISO-8859-1, which gives each byte a character."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return "ISO-8859-1"
    return "UTF-8"


def _text(status: int, text: str) -> webob.Response:
    return webob.Response(status=status, text=text, content_type="text/plain", charset="UTF-8")
