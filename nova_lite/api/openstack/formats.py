"""The formats that JSON schemas of the API may name."""
from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
import unicodedata
from collections.abc import Callable
from urllib.parse import urlsplit

import jsonschema

from nova_lite import exception, units
from nova_lite.db import patterns

CHECKER = jsonschema.FormatChecker(formats=())
_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}")


class FormatError(ValueError):
    """A value of the wrong form; the text is for the user."""


def _format(name: str) -> Callable[[Callable[[str], object]], Callable[[str], object]]:
    """Register a check: it answers False or raises ValueError for a wrong string. Other types are the schema's matter."""
    def register(check: Callable[[str], object]) -> Callable[[str], object]:
        CHECKER.checks(name, raises=ValueError)(lambda value: not isinstance(value, str) or check(value))
        return check
    return register


@_format("uuid")
def is_uuid(value: str) -> bool:
    """A UUID, with dashes or without."""
    return _UUID.fullmatch(value) is not None


@_format("base64")
def _base64(value: str) -> bool:
    try:
        # clients usually send line breaks, see RFC 2045
        base64.b64decode("".join(value.split()).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True


@_format("ipv4")
def _ipv4(value: str) -> bool:
    ipaddress.IPv4Address(value)
    return True


@_format("ipv6")
def _ipv6(value: str) -> bool:
    ipaddress.IPv6Address(value)
    return "%" not in value     # the zone of an address has a meaning on one machine only


@_format("ip")
def _ip(value: str) -> bool:
    ipaddress.ip_address(value)
    return "%" not in value


@_format("cidr")
def _cidr(value: str) -> bool:
    ipaddress.ip_network(value, strict=False)
    return "/" in value


@_format("mac-address")
def _mac(value: str) -> bool:
    return _MAC.fullmatch(value) is not None


@_format("date-time")
def _date_time(value: str) -> bool:
    units.parse_time(value)
    return True


@_format("date")
def _date(value: str) -> bool:
    datetime.date.fromisoformat(value)
    return True


@_format("regex")
def _regex(value: str) -> bool:
    """An expression; an empty one finds everything, so that it is taken for a mistake."""
    if not value:
        return False
    try:
        patterns.compile_linear(value)
    except exception.InvalidInput as error:
        raise FormatError(error.message) from error
    return True


@_format("uri")
def _uri(value: str) -> bool:
    return bool(urlsplit(value).scheme)


@_format("printable")
def _printable(value: str) -> bool:
    """Whether a text has no control characters and line breaks. Every kind of space is allowed (str.isprintable allows only
    one)."""
    return not any(unicodedata.category(char).startswith("C") or char in "\u2028\u2029" for char in value)


@_format("padded_name")
def _padded_name(value: str) -> bool:
    _name(value.strip())
    return True


@_format("name")
def _name(value: str) -> bool:
    if not value.strip() or value != value.strip() or not _printable(value):
        raise FormatError("An invalid 'name' value was provided. The name must be: printable characters. "
                          "Can not start or end with whitespace.")
    return True


@_format("az_name")
def _az_name(value: str) -> bool:
    if not value.strip() or value != value.strip() or not _printable(value) or ":" in value:
        raise FormatError("An invalid 'availability_zone' value was provided. The name must be: printable characters, "
                          "without a colon. Can not start or end with whitespace.")
    return True
