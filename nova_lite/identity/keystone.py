"""The HTTP client of nova_lite for every OpenStack service, with Keystone's tokens and catalog.

A call for a user has the user's token, and the service's own token beside it, so that the call is valid when the user's token
expires meanwhile. A call without a user's token is made as the service user. Time and tries are limited, and a service that did
not answer is not called for some seconds (``breaker.py``). A request that may have been done is not repeated.
"""
from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests
import urllib3
from keystoneauth1 import discover, loading, session
from keystoneauth1 import exceptions as ks
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.identity.breaker import AT_ONCE, SERVICE_WAIT, USER_WAIT, Breaker
from nova_lite.runtime import concurrency

LOG = log.getLogger(__name__)
GROUP, FALLBACK = "service_user", "keystone_authtoken"
CONNECT_SECONDS = 5     # to open a connection; the answer may take [service_user] timeout
UNHURRIED = 2           # times as long where no user waits
RETRY_DELAY = 0.3       # seconds, growing with each try
CHUNK = 1 << 20
_SAFE = ("GET", "HEAD", "DELETE", "PUT")
_BUSY = (429, 502, 503, 504)


class NeighbourError(exception.NovaLiteError):
    """A neighbour answered with a status of 400 or more; ``status``, ``reason`` and ``kind`` are its own words."""

    msg_fmt = "%(what)s answered %(status)s: %(reason)s"
    safe = True

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return int(self.kwargs["status"])

    @property
    def reason(self) -> str:
        """The message of the answer."""
        return str(self.kwargs["reason"])

    @property
    def kind(self) -> str:
        """The name of the error in the answer (Neutron's ``type``, Cinder's ``overLimit``); empty: it has none."""
        return str(self.kwargs.get("kind", ""))


class _NoAnswer(Exception):
    """One try failed. ``again``: nothing was done yet, so that it may be tried once more whatever it was."""

    def __init__(self, error: exception.ServiceUnavailable, again: bool, down: bool = True) -> None:
        super().__init__(str(error))
        self.error, self.again, self.down = error, again, down


class Client:
    """One service. ``name`` is its name in errors ("Neutron"), ``version`` the major version of its API."""

    def __init__(self, conf: cfg.ConfigOpts, service_type: str, name: str, version: int) -> None:
        self._conf, self._type, self._name, self._version = conf, service_type, name, version
        self._lock = threading.Lock()
        self._session: session.Session | None = None
        self._roots: dict[str, str] = {}        # URL in the catalog -> root of the version
        self._asked = "Keystone"                # who keeps the holder of the lock waiting
        self._breaker = Breaker(name, UNHURRIED * conf.service_user.timeout + CONNECT_SECONDS)

    def call(self, context: RequestContext, method: str, path: str, *, as_service: bool = False,
             json: Any = None, params: Any = None, headers: Mapping[str, str] | None = None, data: Any = None,
             stream: bool = False) -> requests.Response:
        """One request; ``path`` begins with a slash and follows the version root, ``{project}`` in it is the id of the project.
        Acts as the context's user when it has a token, unless ``as_service``.

        Raises ServiceUnavailable (503) when no answer comes, the answer is 5xx or the service user is refused; Unauthorized
        when the user's token is refused; NeighbourError for any other status from 400 on. Repeated only when the request cannot
        have been done, or may be done twice.
        """
        user = None if as_service else context.auth_token
        seconds = self._conf.service_user.timeout * (1 if user else UNHURRIED)
        once = data is not None and not isinstance(data, (bytes, str))       # a stream can be read but once
        # while urllib3 sends a body, the first of the two is how long the other side may take nothing of it
        timeout = (seconds if once else CONNECT_SECONDS, seconds)
        arguments = {"json": json, "params": params, "data": data, "stream": stream, "timeout": timeout,
                     "global_request_id": context.global_id or None}
        with self._breaker.place(USER_WAIT[concurrency.is_green()] if user else SERVICE_WAIT):
            answer = self._try(method, path.replace("{project}", context.project_id or "") if user else path, user,
                               headers or {}, arguments, once)
        if answer.status_code >= 500:
            reason, kind = _words(answer)
            raise exception.ServiceUnavailable(what=self._name, reason=f"it answered {answer.status_code}: {reason}", kind=kind,
                                               public=f"{self._name} is unavailable: it answered {answer.status_code}")
        if answer.status_code == 401:
            if user:
                raise exception.Unauthorized(f"{self._name} does not take the token of this request any more.")
            raise exception.ServiceUnavailable(what=self._name, reason=f"it refuses the service user: {_words(answer)[0]}",
                                               public=f"{self._name} is unavailable: it refuses the service user")
        if answer.status_code >= 400:
            reason, kind = _words(answer)
            raise NeighbourError(what=self._name, status=answer.status_code, reason=reason, kind=kind)
        return answer

    def pieces(self, answer: requests.Response) -> Iterator[bytes]:
        """The body of an answer to a call with ``stream``. Raises ServiceUnavailable when it is interrupted or makes no
        progress."""
        try:
            with answer:
                yield from answer.iter_content(CHUNK)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            LOG.warning("%s: the body of %s was interrupted: %s", self._name, answer.url, error)
            raise exception.ServiceUnavailable(what=self._name, reason="its answer broke off") from error

    def _try(self, method: str, path: str, user: str | None, headers: Mapping[str, str], arguments: dict[str, Any],
             once: bool) -> requests.Response:
        began, tries, renewed = time.monotonic(), self._conf.service_user.retries, False
        while True:
            may_repeat = tries > 0 and time.monotonic() - began < self._conf.service_user.timeout
            try:
                answer = self._send(method, path, user, headers, arguments, time.monotonic())
            except _NoAnswer as failure:
                if not (may_repeat and not once and (failure.again or (method in _SAFE and not failure.down))):
                    LOG.warning("%s %s: %s", method, path, failure)
                    if failure.down:
                        self._breaker.failed(failure.error, began)
                    raise failure.error from failure
            else:
                self._breaker.answered()
                if answer.status_code == 401 and not renewed and not once:
                    renewed = self._ready().invalidate()        # our own token may have been revoked
                    if renewed:
                        continue
                if not (answer.status_code in _BUSY and method in _SAFE and may_repeat and not once):
                    return answer
                answer.close()
            time.sleep(RETRY_DELAY * (self._conf.service_user.retries - tries + 1))
            tries -= 1

    def _send(self, method: str, path: str, user: str | None, headers: Mapping[str, str], arguments: dict[str, Any],
              began: float) -> requests.Response:
        made = self._ready()
        token, root, project = self._prepare(made, began)
        sent = {"Accept": "application/json", **headers}
        sent |= {"X-Auth-Token": user or token, "X-Service-Token": token}       # Cinder asks for the second of services, too
        try:
            answer: requests.Response = made.request(
                root + path.replace("{project}", project), method, headers=sent, authenticated=False, raise_exc=False,
                log=False, redirect=False, **arguments)
            return answer
        except ks.ConnectionError as error:
            raise self._no_answer(self._name, error, *arguments["timeout"]) from error

    def _ready(self) -> session.Session:
        with self._lock:
            if self._session is None:
                self._session = make_session(self._conf)
            return self._session

    def _prepare(self, made: session.Session, began: float) -> tuple[str, str, str]:
        """The service user's token, the root of the API without a project's id, the service user's project."""
        if not self._lock.acquire(timeout=USER_WAIT[False] + CONNECT_SECONDS):
            raise _NoAnswer(exception.ServiceUnavailable(what=self._asked, reason="it takes long over its first answer"), False)
        try:
            self._breaker.check_since(began)        # another thread may have found it while this one waited for the lock
            self._asked = "Keystone"
            token, project = made.get_token() or "", made.get_project_id() or ""
            return token, self._root(made, project), project
        except ks.ConnectionError as error:
            failure = self._no_answer(self._asked, error, CONNECT_SECONDS, self._conf.service_user.timeout)
            self._breaker.failed(failure.error, began)
            raise failure from error
        except ks.ClientException as error:
            unavailable = exception.ServiceUnavailable(what="Keystone", reason=f"no token for the service user: {error}",
                                                       public="Keystone is unavailable: no token for the service user")
            self._breaker.failed(unavailable, began)
            raise _NoAnswer(unavailable, False) from error
        finally:
            self._lock.release()

    def _root(self, made: session.Session, project: str) -> str:
        user = self._conf.service_user
        wanted: dict[str, Any] = {"service_type": self._type, "interface": user.valid_interfaces,
                                  "region_name": user.region_name or None}
        try:
            listed = made.get_endpoint(**wanted)
        except ks.CatalogException:
            listed = None
        if not listed:
            missing = exception.ServiceUnavailable(what=self._name, reason=f"the catalog has no {self._type} service")
            raise _NoAnswer(missing, False, down=False)
        if listed not in self._roots:
            self._asked = self._name
            self._roots[listed] = self._discover(made, listed, wanted, project)
        return self._roots[listed]

    def _discover(self, made: session.Session, listed: str, wanted: dict[str, Any], project: str) -> str:
        """Where the version is that we want, by the service's own words unless the catalog's URL ends in it."""
        # keystoneauth tries several URLs and does not report the error: so check first whether Keystone answers
        answer = made.request(listed, "GET", authenticated=False, raise_exc=False, redirect=False, log=False,
                              timeout=(CONNECT_SECONDS, self._conf.service_user.timeout))
        found = None
        if answer.status_code < 500:
            found = made.get_endpoint(min_version=(self._version, 0), max_version=(self._version, discover.LATEST), **wanted)
        if not found:
            public, reason = f"it answered {answer.status_code}", f"it answered {answer.status_code}: {_words(answer)[0]}"
            if answer.status_code < 500:
                public, reason = (f"{where} has no version {self._version} of its API" for where in ("it", listed))
            raise _NoAnswer(exception.ServiceUnavailable(what=self._name, reason=reason,
                                                         public=f"{self._name} is unavailable: {public}"), False, down=False)
        return str(found).rstrip("/").removesuffix(f"/{project}").rstrip("/")

    def _no_answer(self, what: str, error: ks.ConnectionError, connecting: float, seconds: float) -> _NoAnswer:
        cause = error.__context__
        LOG.debug("%s: %s", what, error)
        unsent = isinstance(cause, requests.ConnectTimeout) or "NewConnectionError" in repr(cause)
        if isinstance(cause, requests.ReadTimeout):
            reason = f"no answer within {seconds} s"
        elif isinstance(cause, requests.ConnectTimeout):
            reason = f"no connection within {connecting} s"
        elif unsent:
            reason = "it cannot be reached" + (": connection refused" if "refused" in repr(cause) else "")
        elif isinstance(error, ks.SSLError):
            reason = "its TLS certificate or handshake is refused"
        elif "TimeoutError" in repr(cause):
            reason = f"it took nothing of the data for {connecting} s"
        else:
            reason = "the connection broke before it answered"
        down = unsent or isinstance(cause, requests.Timeout) or isinstance(error, ks.SSLError)
        return _NoAnswer(exception.ServiceUnavailable(what=what, reason=reason), unsent, down)


def make_session(conf: cfg.ConfigOpts, groups: Sequence[str] = (GROUP, FALLBACK)) -> session.Session:
    """A session as the service user: ``[service_user]``, or ``[keystone_authtoken]`` where that has no credentials. ``groups``:
    the groups to search for credentials. Raises ConfigError when none has any."""
    # read apart from ``conf``: keystonemiddleware and we ourselves have options of the same names in these groups
    read = cfg.ConfigOpts()
    read([], default_config_files=conf.config_file or [], default_config_dirs=conf.config_dir or [])
    for group in groups:
        loading.register_session_conf_options(read, group)
        loading.register_auth_conf_options(read, group)
        if not read[group].auth_type:
            continue
        auth = loading.load_auth_from_conf_options(read, group)
        made = loading.load_session_from_conf_options(
            read, group, auth=auth, timeout=conf.service_user.timeout, app_name="nova-lite")
        for scheme in ("http://", "https://"):      # keystoneauth's own keeps ten connections and throws the others away
            made.session.mount(scheme, session.TCPKeepAliveAdapter(pool_maxsize=2 * AT_ONCE))
        return made
    raise exception.ConfigError(reason=f"[{groups[0]}] has no credentials: auth_type, auth_url, username, password, ...")


def _words(answer: requests.Response) -> tuple[str, str]:
    """The message in an error answer, whichever service's form it has, and the error's name."""
    try:
        found = answer.json()
    except ValueError:
        return " ".join(re.sub(r"<[^>]*>", " ", answer.text or answer.reason or "").split())[:200], ""
    kind = ""
    while isinstance(found, dict):
        kind = str(found.get("type") or (next(iter(found), "") if len(found) == 1 else kind))
        found = found.get("message") or found.get("detail") or next(iter(found.values()), "")
    return str(found)[:500], kind
