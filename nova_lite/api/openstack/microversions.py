"""Microversions: which one a request asks for, and the headers of the answer.

Raise :data:`MAX` only when every resource answers as Nova does at the new version (docs/extending.md).
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import microversion_parse

from nova_lite import exception

MIN = "2.1"
MAX = "2.104"
HEADER = "OpenStack-API-Version"
LEGACY_HEADER = "X-OpenStack-Nova-API-Version"
VERSION = "nova_lite.version"
"""Key of the environ: the microversion of the request."""
LEGACY_V2 = "nova_lite.legacy_v2"
"""Key of the environ: set for requests below /v2, which know no microversions."""

_FORM = re.compile(r"[1-9]\d{0,5}\.(?:0|[1-9]\d{0,5})")
VARY = [("Vary", HEADER), ("Vary", LEGACY_HEADER)]


class NotServed(exception.InvalidGlobalAPIVersion):
    """Its answer has the headers of the version that was asked for."""

    def __init__(self, version: str, newest: str) -> None:
        super().__init__(req_ver=version, min_ver=MIN, max_ver=newest)
        self.headers = headers_of(version)


class InvalidVersionString(exception.Invalid):
    msg_fmt = "API Version String %(version)s is of invalid format. Must be of format MajorNum.MinorNum."


@lru_cache(maxsize=1024)
def as_tuple(version: str) -> tuple[int, int]:
    """'2.47' -> (2, 47)."""
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def requested(environ: Mapping[str, Any]) -> str:
    """The microversion of a request: of its headers, :data:`MIN` without any.

    Raises InvalidVersionString (400) and NotServed (406).
    """
    if environ.get(LEGACY_V2):
        return MIN
    return _resolve(environ.get("HTTP_OPENSTACK_API_VERSION"), environ.get("HTTP_X_OPENSTACK_NOVA_API_VERSION"), MAX)


@lru_cache(maxsize=1024)
def _resolve(modern: str | None, legacy: str | None, newest: str) -> str:
    headers = {name: value for name, value in ((HEADER, modern), (LEGACY_HEADER, legacy)) if value is not None}
    if not headers:
        return MIN
    try:
        asked = microversion_parse.get_version(headers, "compute", legacy_headers=[LEGACY_HEADER])
    except ValueError:
        raise InvalidVersionString(version=modern or legacy) from None
    if asked is None:
        return MIN
    if asked == "latest":
        return newest
    check_known(asked, newest)
    return asked


def check_known(version: str, newest: str = MAX) -> None:
    """Raise InvalidVersionString (400) or NotServed (406) for a microversion that is not served."""
    if not _FORM.fullmatch(version):
        raise InvalidVersionString(version=version)
    if not as_tuple(MIN) <= as_tuple(version) <= as_tuple(newest):
        raise NotServed(version, newest)


def answer_headers(environ: Mapping[str, Any], version: str | None) -> list[tuple[str, str]]:
    """The headers with the microversion in use; none below /v2, and for ``version`` None, when it is not known."""
    return [] if version is None or environ.get(LEGACY_V2) else headers_of(version)


def headers_of(version: str) -> list[tuple[str, str]]:
    """The headers of an answer with its microversion."""
    return [(HEADER, f"compute {version}"), (LEGACY_HEADER, version), *VARY]


class LegacyV2:
    """A WSGI filter for /v2: the same API at 2.1, without microversion headers and with relaxed schemas."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        environ[LEGACY_V2] = True
        return self.app(environ, start_response)


def legacy_v2_factory(_global_conf: dict[str, str], **_local: str) -> type[LegacyV2]:
    """Paste filter factory of :class:`LegacyV2`."""
    return LegacyV2
