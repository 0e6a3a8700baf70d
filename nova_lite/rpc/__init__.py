"""The message bus: oslo.messaging with our context, our exceptions and our queues (``rabbit.py``).

Topics: ``conductor`` and ``scheduler`` (any worker takes a message) and ``compute`` with the server name of one host.
A message holds plain JSON types only; records cross as the dictionaries of ``nova_lite.objects``.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log
from oslo_messaging.rpc.server import RPCServer

from nova_lite import exception
from nova_lite.context import CLOUD, SENDER, WAITS, RequestContext
from nova_lite.rpc.sender import UNKNOWN, Says

LOG = log.getLogger(__name__)
CONDUCTOR = "conductor"
SCHEDULER = "scheduler"
COMPUTE = "compute"
ADDRESSED = frozenset({COMPUTE})
"""Topics whose messages name a server. A message of another topic names none."""
VERSION = "1.0"
QUEUED_FOR, WAITING_FOR = 0.5, 0.25
"""The parts of its caller's wait after which a call of conductors or schedulers is dropped: when it is still in the queue, and
when no thread of the process that took it is free. An overloaded server takes each call out of its queue when the call is just
about to be dropped. So the rest of the wait must be enough for the work."""


class ContextSerializer(messaging.Serializer):
    """Carries the request context; bodies are plain JSON already."""

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return entity

    def deserialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return entity

    def serialize_context(self, ctxt: dict[str, Any]) -> dict[str, Any]:
        return ctxt         # Client has made it

    def deserialize_context(self, ctxt: dict[str, Any]) -> RequestContext:
        return RequestContext.from_rpc(ctxt)


# Seconds after which no call waits for an answer over an old connection
_LONGEST_CALL = 180.0


def get_transport(conf: cfg.ConfigOpts, changed: Callable[[], None] = lambda: None) -> messaging.RPCTransport:
    """The bus of ``transport_url``, also after that has changed: then ``changed`` is called, for servers to listen again. No
    connection is made before the first message."""
    transport = _make_transport(conf)
    follow(conf, transport, lambda: _make_transport(conf), changed)
    return transport


def follow(conf: cfg.ConfigOpts, transport: messaging.transport.Transport, make: Callable[[], messaging.transport.Transport],
           changed: Callable[[], None] = lambda: None) -> None:
    """When ``transport_url`` has changed, let all users of the transport use the connections of a new one, unless ``changed``
    raises. Calls under way get their answers over the old connections."""
    held, url = weakref.ref(transport), conf.transport_url

    def hook(_conf: cfg.ConfigOpts, _fresh: object) -> None:
        nonlocal url
        transport = held()
        if transport is None or conf.transport_url == url:
            return
        # oslo.messaging has no call for this; clients and servers read the driver from their transport each time
        old, transport._driver = transport._driver, make()._driver
        try:
            changed()
        except Exception:
            made, transport._driver = transport._driver, old
            made.cleanup()
            raise
        url = conf.transport_url
        later = threading.Timer(max(_LONGEST_CALL, conf.rpc_response_timeout), old.cleanup)
        later.daemon = True
        later.start()

    conf.register_mutate_hook(hook)


def _make_transport(conf: cfg.ConfigOpts) -> messaging.RPCTransport:
    url = messaging.TransportURL.parse(conf)
    if url.transport == "rabbit":
        from nova_lite.rpc import rabbit

        transport = messaging.transport.RPCTransport(rabbit.Driver(conf, url, conf.rpc.exchange, exception.MODULES))
    else:
        transport = messaging.get_rpc_transport(conf, url, allowed_remote_exmods=exception.MODULES)
    _register_hidden_options(conf)
    return transport


def _register_hidden_options(conf: cfg.ConfigOpts) -> None:
    """oslo.messaging registers these on the global ConfigOpts only, yet reads them from ours at each call."""
    for name in ("metrics", "tracing"):
        try:
            module = importlib.import_module(f"oslo_messaging._{name}.client")
        except ModuleNotFoundError:     # a version that does not have it yet
            continue
        conf.register_opts(getattr(module, f"oslo_messaging_{name}"), group=f"oslo_messaging_{name}")


class Client:
    """The client side of one topic. Sub-classed in this package for each service, with the method names of its manager."""

    topic = ""
    cloud: str | None = None
    """The cloud of the sender, when the sender has to name it: see ``cloud_id.py``."""

    def __init__(self, transport: messaging.RPCTransport, sender: Says = UNKNOWN) -> None:
        self._sender, self._conf = sender, transport.conf
        target = messaging.Target(exchange=transport.conf.rpc.exchange, topic=self.topic, version=VERSION)
        self._client = messaging.get_rpc_client(transport, target, serializer=ContextSerializer())

    def call(self, context: RequestContext, method: str, server: str | None = None, timeout: float | None = None,
             silence: float | None = None, **arguments: Any) -> Any:
        """Send and wait for the answer, for ``timeout`` seconds at most, and for ``silence`` seconds when no process says that
        it works on the answer. Raises what the manager raised, or oslo_messaging.MessagingTimeout."""
        options = {k: v for k, v in (("server", server), ("timeout", timeout), ("call_monitor_timeout", silence))
                   if v is not None}
        client = self._client.prepare(**options)
        waits = {WAITS: silence or timeout or self._conf.rpc_response_timeout}
        try:
            return client.call(self._signed(context, method, arguments, server) | waits, method, **arguments)
        except exception.MessageReplayed:       # delivered or written down twice on the way: nothing was done the second time
            return client.call(self._signed(context, method, arguments, server) | waits, method, **arguments)

    def cast(self, context: RequestContext, method: str, server: str | None = None, **arguments: Any) -> None:
        """Send a message without an answer. It is only a wake-up: the database has all that must not be lost."""
        prepared = self._client.prepare(**({"server": server} if server else {}))
        prepared.cast(self._signed(context, method, arguments, server), method, **arguments)

    def _signed(self, context: RequestContext, method: str, arguments: dict[str, Any], server: str | None) -> dict[str, Any]:
        """The context, with what the sender states and proves about itself."""
        said = self._sender.say(context, method, arguments, server)
        return context.to_rpc() | ({SENDER: said} if said else {}) | ({CLOUD: self.cloud} if self.cloud else {})


class _NoAnswer(Exception):
    """Reaches the caller as RemoteError: the call has no result."""


def expected(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of the methods of managers: our own errors reach the caller as they are, and leave no stack in the log. An
    interruption, as when no conductor answers, reaches the caller as oslo.messaging's RemoteError."""
    @messaging.expected_exceptions(exception.NovaLiteError, _NoAnswer)
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except exception.Interrupted as error:
            raise _NoAnswer(error.message) from error
    return call


class _Exposed(messaging.RPCAccessPolicyBase):
    """Which methods of a manager the bus may call: not the private ones, nor those by which its own process runs it, nor an
    attribute that happens to be callable, as the options are."""

    LOCAL = frozenset({"start", "stop", "periodics", "endpoints"})

    def is_allowed(self, endpoint: Any, method: str) -> bool:
        return not method.startswith("_") and method not in self.LOCAL and inspect.isroutine(getattr(endpoint, method))


class _Server(RPCServer):     # type: ignore[misc]
    """Drops a call that waited too long for a thread. The broker drops calls that wait in a queue, but oslo.messaging takes
    messages out of the queue before it has a thread for them."""

    waiting_for = WAITING_FOR

    def _on_incoming(self, incoming: Any) -> None:
        arrived = time.monotonic()
        for message in incoming:
            message.arrived = arrived
        super()._on_incoming(incoming)

    def _process_incoming(self, incoming: Any) -> None:
        message = incoming[0]
        waits, waited = message.ctxt.get(WAITS), time.monotonic() - message.arrived
        if isinstance(waits, int | float) and waited > waits * self.waiting_for:
            LOG.warning("dropped a call of %s: it waited %.1f s for a thread, and its caller waits for %s s",
                        message.message.get("method"), waited, waits)
            message.acknowledge()
            return
        super()._process_incoming(incoming)


def get_server(transport: messaging.RPCTransport, topic: str, server: str, endpoints: Sequence[object]) -> Any:
    """An RPC server on ``topic``; the caller starts, stops and waits for it."""
    from nova_lite.runtime import concurrency

    target = messaging.Target(exchange=transport.conf.rpc.exchange, topic=topic, server=server, version=VERSION)
    for endpoint in endpoints:
        endpoint.target = messaging.Target(version=VERSION)  # type: ignore[attr-defined]
    made = messaging.get_rpc_server(transport, target, list(endpoints),
                                    executor="eventlet" if concurrency.is_green() else "threading",
                                    serializer=ContextSerializer(),
                                    access_policy=_Exposed, server_cls=_Server)
    if topic in ADDRESSED:      # nobody else would answer the next call
        made.waiting_for = 1.0
    if not concurrency.is_green():
        # futurist's threads look once a second whether they shall end, and each message starts one more of them
        made._executor_cls = ThreadPoolExecutor
    return made
