"""A process of nova_lite: managers behind RPC, WSGI applications, loops; and how its ``main`` reads options and fails.

``nova_lite/cmd`` builds a :class:`Service` from these parts; the standalone cloud puts all of them into one.
"""
from __future__ import annotations

import contextlib
import io
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from logging import FileHandler, getLogger
from typing import Any, Protocol

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as oslo_log

from nova_lite import conf as conf_module
from nova_lite import exception, rpc
from nova_lite.conf import files
from nova_lite.runtime import launcher, log
from nova_lite.runtime.http import server, sockets
from nova_lite.runtime.http.listener import Limits
from nova_lite.runtime.pace import Pace

LOG = oslo_log.getLogger(__name__)
# for loops that are at work: one that takes longer waits for a service that is gone, and can be interrupted
JOIN_SECONDS = 1.0
_CLOSERS = 32


class Manager(Protocol):
    """The server side of one topic."""

    @property
    def endpoints(self) -> list[Any]:
        """The objects whose public methods the topic answers."""

    def start(self) -> None:
        """Called before messages come in."""

    def stop(self) -> None:
        """Called when no more messages arrive: finish the work in flight."""

    def periodics(self) -> list[tuple[float, Callable[[], Any]]]:
        """(seconds, function) of the loops that run while the manager does."""


class Service:
    """The parts of one process. Nothing runs before :meth:`start`."""

    def __init__(self, name: str, conf: cfg.ConfigOpts, bound: Mapping[tuple[str, int], socket.socket] | None = None) -> None:
        self.name, self.conf = name, conf
        self._bound = bound or {}
        self._transport: Any = None
        self._parts: list[_Part] = []
        self._web: list[server.Server] = []
        self._loops: list[tuple[float, Callable[[], Any]]] = []
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._stopped = threading.Event()

    @property
    def transport(self) -> Any:
        """The message bus of this process, shared by all its managers and clients."""
        if self._transport is None:
            self._transport = rpc.get_transport(self.conf, self._listen_again)
        return self._transport

    def add_rpc_server(self, topic: str, server: str, endpoints: Sequence[object]) -> None:
        """Answer the messages of a topic."""
        self._parts.append(_Part(self, topic, server, list(endpoints), None))

    def add_manager(self, topic: str, server: str, manager: Manager) -> None:
        """A manager with its RPC server and loops; managers start in the order in which they were added."""
        self._parts.append(_Part(self, topic, server, list(manager.endpoints), manager))

    def add_periodic(self, seconds: float, function: Callable[[], Any]) -> None:
        """Call ``function`` now and then every ``seconds``, as :class:`Pace` says; its errors are logged and never end the
        loop. 0: never."""
        if seconds > 0:
            self._loops.append((seconds, function))

    def add_wsgi(self, app: server.App, host: str, port: int, tls_cert_file: str = "",
                 tls_key_file: str = "") -> server.Server:
        """Serve a WSGI application; on the socket that was bound before the fork, where there is one."""
        tls = sockets.tls_context(tls_cert_file, tls_key_file) if tls_cert_file else None
        made = server.WSGIServer(app, self.bound(host, port), tls, self.limits)
        self.add_door(made)
        return made

    def add_door(self, door: server.Server) -> None:
        """Any other server that begins when all else runs, and is the first to end."""
        self._web.append(door)

    @property
    def limits(self) -> Limits:
        """How many connections each server of this process takes."""
        return Limits(self.conf.wsgi.max_connections, self.conf.wsgi.max_connections_per_address)

    def bound(self, host: str, port: int) -> socket.socket:
        """The socket that was bound before the fork, where there is one, else a new one."""
        return self._bound.get((host, port)) or sockets.bind(host, port)

    def start(self) -> None:
        """Start everything: managers and their RPC, then the loops, then the doors."""
        for part in self._parts:
            part.start()
        for seconds, loop in self._loops:
            self._start_loop(seconds, loop)
        for door in self._web:
            door.start()

    def stop(self) -> None:
        """Close the doors, finish requests, messages and the managers' work; the loops (leases!) run until that is done."""
        for door in self._web:
            door.stop()
        if self._parts:
            with ThreadPoolExecutor(min(len(self._parts), _CLOSERS)) as pool:
                list(pool.map(_Part.close, self._parts))
        for part in reversed(self._parts):
            part.finish()
        self._stopping.set()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._transport is not None:
            self._transport.cleanup()
        self._stopped.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until :meth:`stop` is done."""
        return self._stopped.wait(timeout)

    def _listen_again(self) -> None:
        """The transport has gone over to another broker or user: so do all parts, or, when one cannot, none."""
        made: list[tuple[_Part, Any]] = []
        try:
            for part in self._parts:
                if part.listens:
                    made.append((part, part.listen()))
        except Exception:
            for _, new in made:
                _end(new)
            raise
        for part, new in made:
            part.replace_server(new)

    def _start_loop(self, seconds: float, function: Callable[[], Any]) -> None:
        name = getattr(function, "__qualname__", repr(function))
        thread = threading.Thread(target=self._loop, args=(seconds, function, name), name=f"every-{seconds}s-{name}",
                                  daemon=True)
        thread.start()
        self._threads.append(thread)

    def _loop(self, seconds: float, function: Callable[[], Any], name: str) -> None:
        pace = Pace(seconds)
        while not self._stopping.is_set():
            try:
                function()
                pause = pace.after_success()
            except (exception.Interrupted, Exception) as error:
                pause = pace.after_failure()
                self._tell_failure(name, pause, error)
            self._stopping.wait(pause)

    def _tell_failure(self, name: str, pause: float, error: BaseException) -> None:
        if self._stopping.is_set():
            LOG.debug("%s was interrupted by the stop: %s", name, error)
        elif isinstance(error, exception.Interrupted | oslo_messaging.MessagingException):      # the other side is away
            LOG.warning("%s failed; it runs again in %.1f s: %s", name, pause, error)
        else:
            LOG.error("%s failed; it runs again in %.1f s", name, pause, exc_info=error)


class _Part:
    """One topic of a service."""

    def __init__(self, service: Service, topic: str, server: str, endpoints: list[Any], manager: Manager | None) -> None:
        self.service, self.topic, self.server = service, topic, server
        self.endpoints, self.manager = endpoints, manager
        self._rpc: Any = None

    def start(self) -> None:
        if self.manager is not None:
            self.manager.start()
        self._rpc = self.listen()
        if self.manager is not None:
            for seconds, function in self.manager.periodics():
                if seconds > 0:
                    self.service._start_loop(seconds, function)

    @property
    def listens(self) -> bool:
        """Whether it has started."""
        return self._rpc is not None

    def listen(self) -> Any:
        """An RPC server of its own on the transport as it is now."""
        made = rpc.get_server(self.service.transport, self.topic, self.server, self.endpoints)
        made.start()
        return made

    def replace_server(self, new: Any) -> None:
        """Leave the RPC server of before."""
        old, self._rpc = self._rpc, new
        threading.Thread(target=_end, args=(old,), name=f"leave-{self.topic}", daemon=True).start()

    def close(self) -> None:
        """Take no more messages; answer those that are here."""
        if self._rpc is not None:
            _end(self._rpc)

    def finish(self) -> None:
        if self.manager is not None:
            self.manager.stop()


def _end(rpc_server: Any) -> None:
    rpc_server.stop()
    rpc_server.wait()


def compute_hosts(conf: cfg.ConfigOpts) -> list[str]:
    """The hosts of this compute daemon: one, or with the fake driver as many as ``[fake] hosts``."""
    count = conf.fake.hosts if conf.compute.driver == "fake" else 1
    return [conf.host if n == 1 else f"{conf.host}-{n}" for n in range(1, count + 1)]


def load(name: str, cli_opts: Sequence[cfg.Opt] = (), argv: Sequence[str] | None = None,
         logging: bool = True) -> cfg.ConfigOpts:
    """The options of this process, each of them checked, and logging started. Raises ConfigError for a mistake."""
    usage = io.StringIO()
    try:
        with contextlib.redirect_stderr(usage):
            conf = conf_module.load(sys.argv[1:] if argv is None else argv, prog=name, cli_opts=cli_opts)
    except SystemExit as end:
        if not end.code:        # --help and --version
            raise
        # the argument parser has printed its usage, then the error
        last = (usage.getvalue().strip().splitlines() or ["wrong arguments"])[-1]
        raise exception.ConfigError(reason=f"{last.partition('error: ')[2] or last} (see --help)") from None
    check_values(conf)
    if logging:
        try:
            log.setup(conf)
        except (oslo_log.LogConfigError, OSError) as error:
            raise exception.ConfigError(reason=f"Cannot start logging: {error}") from None
        unknown, exposed = files.unknown(conf, conf_module.list_opts()), files.exposed(conf)
        if unknown:
            LOG.warning("options that are not known, and have no effect: %s", ", ".join(unknown))
        if exposed:
            LOG.warning("every user of this machine can read the secrets in %s: chmod 640", ", ".join(exposed))
    return conf


def check_values(conf: cfg.ConfigOpts) -> None:
    """Read every option once, as oslo.config checks a value only when it is read. Raises ConfigError."""
    for module in conf_module.GROUPS:
        group = conf if module.GROUP == "DEFAULT" else conf[module.GROUP]
        for option in module.OPTS:
            try:
                group[option.dest]
            except (cfg.Error, ValueError) as error:
                raise exception.ConfigError(reason=f"[{module.GROUP}] {option.name}: {error}") from None


def run(name: str, function: Callable[[], int | None]) -> int:
    """Call ``function`` and return its exit status. A mistake of the operator, or a service that does not answer, becomes one
    line on stderr (and in the log file) and status 1."""
    try:
        return function() or 0
    except (exception.NovaLiteError, cfg.Error, OSError) as error:
        line = launcher.one_line(error)
        if line is None:
            raise
    except KeyboardInterrupt:
        line = "interrupted"
    if any(isinstance(handler, FileHandler) for handler in getLogger().handlers):
        LOG.critical("%s", line)
    print(f"{name}: {line}", file=sys.stderr, flush=True)
    return 1


def serve(conf: cfg.ConfigOpts, name: str, build: Callable[[Service], None], *, workers: int = 1,
          check: Sequence[Callable[[cfg.ConfigOpts], None]] = (), listen: Sequence[tuple[str, int]] = ()) -> int:
    """Ask the neighbours (``check``), take the ports (``listen``), then run until a signal; the exit status. SIGHUP asks the
    neighbours again, when their URLs have changed.

    ``build`` adds the parts to a Service; each worker process calls it for itself.
    """
    for ask in check:
        ask(conf)
    bound = {address: sockets.bind(*address) for address in listen}

    def make() -> Service:
        runner = Service(name, conf, bound)
        build(runner)
        return runner

    return launcher.launch(conf, make, name, workers, check)


def main(name: str, build: Callable[[Service], None], *, workers: Callable[[cfg.ConfigOpts], int] = lambda conf: 1,
         check: Sequence[Callable[[cfg.ConfigOpts], None]] = (),
         listen: Callable[[cfg.ConfigOpts], list[tuple[str, int]]] = lambda conf: []) -> int:
    """The ``main`` of every service: options, then :func:`serve`; errors in one line."""
    def go() -> int:
        conf = load(name)
        return serve(conf, name, build, workers=workers(conf), check=check, listen=listen(conf))

    return run(name, go)
