"""How nova_lite speaks to its neighbours: one HTTP client for every OpenStack service, with Keystone's tokens and catalog.

A call on behalf of a user carries the user's token and, beside it, the service's own (so that it is still good when the user's
runs out on the way); a call without a user's token is the service user's. Time and tries are bounded, and a neighbour that did
not answer is left alone for some seconds, so that it cannot fill all threads of this process with requests that wait.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import requests
from keystoneauth1 import discover, loading, session
from keystoneauth1 import exceptions as ks
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext

LOG = log.getLogger(__name__)
GROUP, FALLBACK = "service_user", "keystone_authtoken"
PAUSE = 5.0         # seconds in which a neighbour that did not answer is not asked again
_SAFE = ("GET", "HEAD", "DELETE", "PUT")
_BUSY = [429, 502, 503, 504]


class NeighbourError(exception.NovaLiteError):
    """A neighbour answered with a status of 400 or more; ``status`` and ``reason`` are its own words."""

    msg_fmt = "%(what)s answered %(status)s: %(reason)s"

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return int(self.kwargs["status"])

    @property
    def reason(self) -> str:
        """The message of the answer."""
        return str(self.kwargs["reason"])


class Client:
    """One neighbour. ``name`` is what errors call it ("Neutron"), ``version`` the major version of its API."""

    def __init__(self, conf: cfg.ConfigOpts, service_type: str, name: str, version: int) -> None:
        self._conf, self._type, self._name, self._version = conf, service_type, name, version
        self._lock = threading.Lock()
        self._session: session.Session | None = None
        self._unavailable: tuple[float, str] = (0.0, "")       # until when, and why

    def call(self, context: RequestContext, method: str, path: str, *, as_service: bool = False,
             json: Any = None, params: Any = None, headers: Mapping[str, str] | None = None, data: Any = None,
             stream: bool = False) -> requests.Response:
        """One request; ``path`` begins with a slash and follows the version root, ``{project}`` in it is the project's id.

        Acts as the context's user when it has a token, unless ``as_service``. Raises ServiceUnavailable (503) when no answer
        comes or the answer is 5xx, NeighbourError for any other status from 400 on. Never sent twice unless that is safe.
        """
        self._check_available()
        made = self._ready()
        token = None if as_service else context.auth_token
        sent = {"Accept": "application/json", **(headers or {})}
        try:
            if token:
                sent |= {"X-Auth-Token": token, "X-Service-Token": made.get_token() or ""}
            project = context.project_id if token else made.get_project_id()
            answer = made.request(
                self._root(made) + path.replace("{project}", project or ""), method, json=json, params=params, data=data,
                headers=sent, authenticated=not token, raise_exc=False, stream=stream, log=False,
                global_request_id=context.global_id or None, redirect=False,
                connect_retries=self._conf.service_user.retries, connect_retry_delay=0.3,
                status_code_retries=self._conf.service_user.retries if method in _SAFE else 0,
                retriable_status_codes=_BUSY, status_code_retry_delay=0.3)
        except ks.ClientException as error:
            raise self._no_answer(error) from error
        if answer.status_code >= 500:
            raise exception.ServiceUnavailable(what=self._name, reason=f"it answered {answer.status_code}: {_words(answer)}")
        if answer.status_code >= 400:
            raise NeighbourError(what=self._name, status=answer.status_code, reason=_words(answer))
        return answer

    def _ready(self) -> session.Session:
        with self._lock:
            if self._session is None:
                self._session = make_session(self._conf)
            return self._session

    def _root(self, made: session.Session) -> str:
        """The root of the API's version in the catalog, without a project's id; keystoneauth remembers what it discovered."""
        user = self._conf.service_user
        endpoint = made.get_endpoint(service_type=self._type, interface=user.valid_interfaces,
                                     region_name=user.region_name or None, min_version=(self._version, 0),
                                     max_version=(self._version, discover.LATEST))
        if not endpoint:
            raise exception.ServiceUnavailable(what=self._name, reason=f"the catalog has no {self._type} service")
        project = made.get_project_id()
        return endpoint.rstrip("/").removesuffix(f"/{project}").rstrip("/")

    def _check_available(self) -> None:
        until, reason = self._unavailable
        if time.monotonic() < until:
            raise exception.ServiceUnavailable(what=self._name, reason=reason)

    def _no_answer(self, error: ks.ClientException) -> exception.NovaLiteError:
        from_keystone = isinstance(error, (ks.AuthorizationFailure, ks.AuthPluginException, ks.HttpError,
                                           ks.MissingAuthPlugin))
        what, reason = ("Keystone" if from_keystone else self._name), str(error)
        LOG.warning("%s: %s", what, reason)
        self._unavailable = (time.monotonic() + PAUSE, reason)
        return exception.ServiceUnavailable(what=what, reason=reason)


def make_session(conf: cfg.ConfigOpts) -> session.Session:
    """A session as the service user: ``[service_user]``, or ``[keystone_authtoken]`` where that names none.

    Raises ConfigError when neither has credentials.
    """
    for group in (GROUP, FALLBACK):
        loading.register_session_conf_options(conf, group)
        loading.register_auth_conf_options(conf, group)
        if not conf[group].auth_type:
            continue
        auth = loading.load_auth_from_conf_options(conf, group)
        return loading.load_session_from_conf_options(
            conf, group, auth=auth, timeout=conf.service_user.timeout, app_name="nova-lite")
    raise exception.ConfigError(reason="[service_user] has no credentials: auth_type, auth_url, username, password, ...")


def _words(answer: requests.Response) -> str:
    """The message in an error answer, whichever service's form it has."""
    try:
        body = answer.json()
    except ValueError:
        return (answer.text or answer.reason or "")[:200]
    found = body
    while isinstance(found, dict):
        found = found.get("message") or found.get("detail") or next(iter(found.values()), "")
    return str(found)[:500]
