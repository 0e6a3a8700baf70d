"""The addresses of a server's nics as a short text, so that a search by address reads an index and not the nics of all servers.

The text is " 10.0.0.3 fd00::3 ". It is MANY when it would be too long for its column, or when a service of an older release has
written the row: the addresses are read from ``network_info`` then.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 160
MANY = "*"
_PART = re.compile(r"(\^?)((?:[0-9A-Fa-f:.]|\\\.)+)(\$?)")      # its dots may be meant as dots or as any character


def of(nics: Iterable[Mapping[str, Any]] | None) -> list[str]:
    """The fixed addresses of ``network_info``."""
    return [address["address"] for nic in nics or () for address in nic.get("fixed_ips") or ()]


def text(nics: Iterable[Mapping[str, Any]] | None) -> str:
    """The text of the module, for ``network_info``."""
    found = "".join(f" {address}" for address in of(nics))
    return MANY if len(found) >= LONGEST else found + " " * bool(found)


def split(addresses: str) -> list[str]:
    """The inverse of :func:`text`; nothing for MANY."""
    return [] if addresses == MANY else addresses.split()


def like(expression: str) -> str | None:
    """What LIKE finds in the text of each server that has an address with the regular expression. None: LIKE cannot tell."""
    part = _PART.fullmatch(expression)
    if part is None:
        return None
    return "%" + " " * bool(part[1]) + part[2].replace("\\.", ".").replace(".", "_") + " " * bool(part[3]) + "%"
